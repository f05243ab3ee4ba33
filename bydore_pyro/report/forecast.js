"use strict";
// The losses of mixtures: bydore_pyro/law/law.py and bydore_pyro/answer/forecast.py once more.
// Shapes: S draws, Q targets, K domains; tables lie row by row in one array.

const LEVEL = 0.94; // of the intervals
const BEYOND = 2; // times more or less effective tokens than any run had
const LEAST_WEIGHT = 1e-6; // at which the slope of a domain without weight is taken
const ROUNDS = 40,
  SWEEPS = 200,
  HALVINGS = 60,
  RETRIES = 6,
  DEAREST = 1e9,
  SAFE = 1.2; // of the search for a step
const NEAR = 1e-6,
  TIGHT = 2e-6; // how far a step may miss a loss that is asked for, or go beyond it

const sum = (values) => values.reduce((all, one) => all + one, 0);

// The formula of one run's law on the numbers of its explorer.safetensors.
function forecastOf(law, numbers) {
  const { level, slope, power, openness, transfer, compositions, levels, seen } = numbers;
  const { shares } = law;
  const K = seen.length / 2,
    Q = shares.length,
    S = levels.length / Q;
  const ownTransfer = transfer.length > K * K,
    ownMade = compositions.length > Q * K;
  const scale = law.length / law.reference;

  // n / n_0 of every draw and domain (S, K): own tokens, and what the others' are worth.
  function ratios(weights) {
    const amounts = weights.map((one) => (one * scale) ** law.rho);
    const found = new Float64Array(S * K),
      others = new Float64Array(K);
    for (let s = 0; s < S; s++) {
      const from = ownTransfer ? s * K * K : 0;
      if (ownTransfer || s === 0)
        for (let t = 0; t < K; t++) {
          let worth = 0;
          for (let k = 0, at = from + t * K; k < K; k++) worth += transfer[at + k] * amounts[k];
          others[t] = worth;
        }
      for (let t = 0, at = s * K; t < K; t++, at++)
        found[at] = amounts[t] + openness[at] * others[t];
    }
    return found;
  }

  // Expected losses of the targets in every draw (S, Q).
  function targets(weights, ratio = ratios(weights)) {
    const root = Math.sqrt(away(weights)),
      found = new Float64Array(S * Q),
      domains = new Float64Array(K);
    for (let s = 0; s < S; s++) {
      for (let t = 0, at = s * K; t < K; t++, at++)
        domains[t] =
          level[at] + (slope[at] * Math.expm1(-power[at] * Math.log(ratio[at]))) / power[at];
      for (let q = 0, at = s * Q; q < Q; q++, at++) {
        let loss = levels[at];
        for (let k = 0, of = (ownMade ? at : q) * K; k < K; k++)
          loss += compositions[of + k] * domains[k];
        const start = numbers.start[at];
        found[at] = start + numbers.factor[at] * (loss - start) + numbers.scattered[at] * root;
      }
    }
    return found;
  }

  // Total variation from the nearest run whose level is known.
  const away = (weights) =>
    Math.min(
      ...law.trained.map((run) => sum(run.map((one, k) => Math.abs(one - (weights[k] ?? 0)))) / 2),
    );

  // Losses (S, Q) with a run's own noise, and last those on all targets or the worst: by text.
  function measured(losses, sign, noise) {
    const found = Array.from({ length: Q + (Q > 1) }, () => new Float64Array(S));
    for (let s = 0; s < S; s++) {
      let all = law.worst ? -Infinity : 0;
      for (let q = 0; q < Q; q++) {
        const one = losses[s * Q + q] + sign * noise(s, q);
        found[q][s] = one;
        all = law.worst ? Math.max(all, one) : all + shares[q] * one;
      }
      if (Q > 1) found[Q][s] = all;
    }
    return found;
  }

  const off = (s, q) => numbers.off[s * Q + q];
  const offFirst = (s, q) => numbers.off_both[2 * s * Q + q];
  const offSecond = (s, q) => numbers.off_both[(2 * s + 1) * Q + q];

  // As `Forecast.expected`, by text; of `targets`.
  function expected(losses) {
    const both = [measured(losses, 1, off), measured(losses, -1, off)];
    return both[0].map((_, text) =>
      summary(
        both.map((one) => one[text]),
        2,
      ),
    );
  }

  // As `Forecast.difference`, by text; of `targets` of two mixtures.
  function difference(losses, other) {
    let ways = [
      [1, offFirst, offSecond],
      [-1, offFirst, offSecond],
      [1, offSecond, offFirst],
      [-1, offSecond, offFirst],
    ];
    if (!law.worst) ways = ways.slice(0, 2); // of a mean the others are these two again
    const apart = ways.map(([sign, one, two]) => {
      const left = measured(losses, sign, one),
        right = measured(other, sign, two);
      return left.map((draws, text) => draws.map((loss, s) => loss - right[text][s]));
    });
    return apart[0].map((_, text) =>
      summary(
        apart.map((one) => one[text]),
        4 / ways.length,
      ),
    );
  }

  // The domains of which a run on these weights has more, or fewer, effective tokens than was seen.
  function beyond(ratio) {
    const found = [];
    for (let k = 0; k < K; k++) {
      let mean = 0;
      for (let s = 0; s < S; s++) mean += ratio[s * K + k] / S;
      if (mean > BEYOND * seen[K + k] || mean * BEYOND < seen[k]) found.push(k);
    }
    return found;
  }

  // What each target is made of, on average (Q, K).
  const made = new Float64Array(Q * K);
  compositions.forEach((one, at) => (made[at % (Q * K)] += one));

  // What share of a target is made of these domains.
  function madeOf(q, places) {
    const own = made.subarray(q * K, (q + 1) * K);
    return sum(places.map((k) => own[k])) / sum(own);
  }

  // The mean over draws of each target's expected loss (Q).
  function means(losses) {
    const found = new Float64Array(Q);
    losses.forEach((loss, at) => (found[at % Q] += loss / S));
    return found;
  }

  // How fast that rises with each weight (K): of the targets together, by shares (Q).
  function gradient(weights, ratio, of) {
    const rise = new Float64Array(K),
      opened = new Float64Array(K);
    const spread = (values, from) => {
      for (let t = 0; t < K; t++)
        for (let k = 0, at = from + t * K; k < K; k++) rise[k] += values[t] * transfer[at + k];
    };
    for (let s = 0; s < S; s++) {
      const through = new Float64Array(K);
      of.forEach((share, q) => {
        if (share) {
          const part = (share * numbers.factor[s * Q + q]) / S;
          for (let t = 0, at = (ownMade ? s * Q + q : q) * K; t < K; t++)
            through[t] += part * compositions[at + t];
        }
      });
      for (let t = 0, at = s * K; t < K; t++, at++) {
        const slower = -through[t] * slope[at] * ratio[at] ** (-power[at] - 1);
        rise[t] += slower;
        opened[t] += slower * openness[at];
      }
      if (ownTransfer) {
        spread(opened, s * K * K);
        opened.fill(0);
      }
    }
    if (!ownTransfer) spread(opened, 0);
    return rise.map(
      (one, k) =>
        one * law.rho * scale * (Math.max(weights[k], LEAST_WEIGHT) * scale) ** (law.rho - 1),
    );
  }

  // The mixture nearest to another, in the sum of (w - w_0)^2 / w_0, on which losses are at most so
  // high; each limit is {of: shares of the targets (Q), loss}. Null where none is found.
  // Of each loss a parabola is taken where the last mixture lies, as steep as it is there and bent as
  // it was on the way (in the same distance); then again at what the parabolas give.
  function nearest(start, limits, lower, upper) {
    const reach = start.map((one, k) => (upper[k] > lower[k] ? Math.max(one, 1e-3 / K) : 0));
    const bends = limits.map(() => 0);
    let weights = start,
      last = null,
      reached = null;
    for (let round = 0; round <= ROUNDS; round++) {
      const ratio = ratios(weights),
        losses = means(targets(weights, ratio));
      const over = limits.map(
        ({ of, loss }) => sum(of.map((share, q) => share * losses[q])) - loss,
      );
      const most = Math.max(...over);
      if (most < NEAR) reached = weights;
      if (most < NEAR && (most > -TIGHT || !last)) break;
      if (last)
        over.forEach((one, j) => {
          const found = (2 * (one - last.over[j] - dot(last.slopes[j], last.way))) / last.length;
          bends[j] = Math.max(one > last.over[j] / 2 ? 2 * bends[j] : 0, SAFE * found);
        });
      const slopes = limits.map(({ of }) => gradient(weights, ratio, of));
      let found = null;
      for (let n = 0; !found && n < RETRIES; n++) {
        found = nearestTo(start, reach, weights, { over, slopes, bends }, lower, upper);
        if (!found && !Math.max(...bends)) return reached; // lines are below: no mixture is so good
        if (!found) bends.forEach((one, j) => (bends[j] = n < RETRIES - 2 ? one / 4 : 0));
      }
      if (!found) break;
      const way = found.map((one, k) => one - weights[k]);
      last = {
        over,
        slopes,
        way,
        length: Math.max(sum(way.map((one, k) => (reach[k] ? one ** 2 / reach[k] : 0))), 1e-12),
      };
      weights = found;
    }
    return reached;
  }

  return {
    K,
    Q,
    S,
    shares,
    ratios,
    targets,
    expected,
    difference,
    beyond,
    madeOf,
    means,
    gradient,
    nearest,
  };
}

function dot(one, other) {
  let found = 0;
  for (let k = 0; k < one.length; k++) found += one[k] * other[k];
  return found;
}

// The weights w nearest to `start` on which no limit is passed: with d = w - at,
// over_j + slopes_j . d + bends_j / 2 sum d^2 / reach <= 0. Null where there are none. Each limit
// has a price; Newton's steps on the prices, one after the other, as far as weights can move.
function nearestTo(start, reach, at, { over, slopes, bends }, lower, upper) {
  const prices = over.map(() => 0),
    K = start.length,
    found = new Float64Array(K);
  const span = 2 / Math.min(...reach.filter((one) => one > 0));
  const stiff = () => 1 + sum(prices.map((price, j) => price * bends[j]));
  function solve() {
    const pull = new Float64Array(K),
      whole = stiff();
    slopes.forEach((one, j) => {
      for (let k = 0; k < K; k++) pull[k] += prices[j] * one[k];
    });
    let low = Math.min(...pull) - whole * span,
      high = Math.max(...pull) + whole * span;
    for (let n = 0; n < HALVINGS; n++) {
      const level = (low + high) / 2;
      let total = 0;
      for (let k = 0; k < K; k++) {
        const free = (start[k] + (whole - 1) * at[k] + reach[k] * (level - pull[k])) / whole;
        found[k] = reach[k] ? Math.min(Math.max(free, lower[k]), upper[k]) : start[k];
        total += found[k];
      }
      if (total < 1) low = level;
      else high = level;
    }
  }
  const way = () => found.map((one, k) => one - at[k]);
  const passed = (j, d) =>
    over[j] +
    dot(slopes[j], d) +
    (bends[j] / 2) * sum(d.map((one, k) => (reach[k] ? one ** 2 / reach[k] : 0)));
  function curve(j, d) {
    const free = found.map((one, k) => (one > lower[k] && one < upper[k] ? reach[k] : 0));
    const steep = slopes[j].map((one, k) => one + (free[k] ? (bends[j] * d[k]) / reach[k] : 0));
    const mean = dot(free, steep) / Math.max(sum(free), 1e-300);
    return (
      dot(
        free,
        steep.map((one) => (one - mean) ** 2),
      ) / stiff()
    );
  }
  solve();
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    let missed = 0;
    for (let j = 0; j < over.length; j++) {
      const d = way(),
        more = passed(j, d),
        bend = curve(j, d);
      const price = bend > 0 ? Math.max(0, prices[j] + more / bend) : prices[j];
      missed = Math.max(missed, price > 0 ? Math.abs(more) : more);
      if (price !== prices[j]) {
        prices[j] = price;
        solve();
      }
    }
    if (missed < NEAR / 100) return found;
    if (!(Math.max(...prices) < DEAREST)) return null;
  }
  return Math.max(...over.map((_, j) => passed(j, way()))) < NEAR / 10 ? found : null;
}

// The mean of draws, their highest-density interval (each draw counts so often) and the share < 0.
function summary(parts, copies) {
  const ordered = new Float64Array(sum(parts.map((one) => one.length)));
  parts.forEach((one, n) => ordered.set(one, n * one.length));
  ordered.sort();
  const count = copies * ordered.length,
    inside = Math.trunc(LEVEL * count);
  const value = (place) => ordered[Math.trunc(place / copies)];
  let first = 0;
  for (let place = 1; place + inside < count; place++)
    if (value(place + inside) - value(place) < value(first + inside) - value(first)) first = place;
  const below = ordered.findIndex((one) => one >= 0);
  return {
    loss: sum(ordered) / ordered.length,
    low: value(first),
    high: value(first + inside),
    better: (below < 0 ? ordered.length : below) / ordered.length,
  };
}

// The mixture in which these places have so much weight: theirs and the others' that are not locked
// keep their proportions.
function moved(weights, locked, places, total) {
  const own = new Set(places),
    free = [[], []],
    held = [0, 0];
  weights.forEach((one, k) =>
    locked[k] ? (held[+!own.has(k)] += one) : free[+!own.has(k)].push(k),
  );
  const most = 1 - held[1];
  total = free[1].length ? Math.min(Math.max(total, held[0]), most) : most;
  const found = Float64Array.from(weights);
  if (!free[0].length) return found;
  [total - held[0], most - total].forEach((share, side) => {
    const before = sum(free[side].map((k) => weights[k]));
    for (const k of free[side])
      found[k] = before > 0 ? (weights[k] * share) / before : share / free[side].length;
  });
  return found;
}
