// The page's controls, and what it shows of the mixture that they are at.

const FEW = 24; // domains; of more, groups fold out and names can be searched
const SHOWN = 20; // of those without groups, and of matches of a search
const OFTEN = 4; // epochs, up to which text that is read again is nearly worth as much
const TOUCHED = 0.1; // the share of a target that makes it one beyond what was measured
const LOWER = [0.01, 0.005, 0.002, 0.001]; // of a target's unit: the first that can be reached
const BROKEN = 1e-9; // by which a weight may pass a bound, by rounding
const MULTIPLES = { k: 1e3, M: 1e6, B: 1e9, T: 1e12 };

function make(tag, properties = {}, ...children) {
  const { dataset, ...others } = properties;
  const found = Object.assign(document.createElement(tag), others);
  Object.assign(found.dataset, dataset);
  found.append(...children);
  return found;
}

const signed = (value) => (value < 0 ? "" : "+") + value.toFixed(3);
const range = (one, shown) => `${shown(one.low)} to ${shown(one.high)}`;
const percent = (share) =>
  `${(100 * share).toFixed(share < 0.0995 && share > 0 ? (share < 0.00095 ? 3 : 1) : 0)} %`;
const times = (count) => (count < 10 ? count.toFixed(2) : Math.round(count).toLocaleString("en"));
const listed = (names) =>
  names.slice(0, 5).join(", ") + (names.length > 5 ? ` and ${names.length - 5} more` : "");

function tokensOf(text) {
  const found = /^\s*([\d.]+(?:e\d+)?)\s*([kMBT]?)\s*$/i.exec(text);
  const count = found
    ? Number(found[1]) *
      (MULTIPLES[found[2]] ??
        MULTIPLES[found[2].toUpperCase()] ??
        MULTIPLES[found[2].toLowerCase()] ??
        1)
    : NaN;
  return count > 0 ? count : NaN;
}

function numbersOf(coded) {
  return Object.fromEntries(
    Object.entries(coded).map(([name, text]) => {
      const letters = atob(text),
        bytes = new Uint8Array(letters.length);
      for (let at = 0; at < letters.length; at++) bytes[at] = letters.charCodeAt(at);
      return [name, new Float32Array(bytes.buffer)];
    }),
  );
}

// A mixture as the address has it, and what of the address is none.
function mixtureIn(address, names) {
  const weights = new Float64Array(names.length),
    places = new Map(names.map((name, k) => [name, k])),
    bad = [];
  for (const entry of address.replace(/^#/, "").split(",").filter(Boolean)) {
    const at = entry.lastIndexOf("="),
      share = Number(entry.slice(at + 1) || NaN);
    let name = entry.slice(0, Math.max(at, 0));
    try {
      name = decodeURIComponent(name);
    } catch {}
    const place = places.get(name);
    if (place === undefined || !(share >= 0 && share < Infinity)) bad.push(entry);
    else weights[place] = share;
  }
  const total = sum(weights);
  return { weights: total > 0 ? weights.map((one) => one / total) : null, bad, total };
}

const addressOf = (weights, names) =>
  "#" +
  names
    .flatMap((name, k) =>
      weights[k] > 0 ? [`${encodeURIComponent(name)}=${Number(weights[k].toPrecision(6))}`] : [],
    )
    .join(",");

// The places of the domains by their first folder, the rest last; of those without, the largest.
function groupsOf(names, weights) {
  const all = names.map((_, k) => k),
    by = new Map();
  if (names.length <= FEW) return [{ name: "", places: all }];
  for (const k of all) {
    const top = names[k].includes("/") ? names[k].split("/")[0] : "";
    by.set(top, [...(by.get(top) ?? []), k]);
  }
  const groups = [...by]
    .filter(([top, places]) => top && places.length > 1)
    .map(([name, places]) => ({ name, places }));
  if (groups.length > 1) {
    const inside = new Set(groups.flatMap((one) => one.places)),
      rest = all.filter((k) => !inside.has(k));
    return rest.length ? [...groups, { name: "other domains", places: rest }] : groups;
  }
  const order = [...all].sort((one, other) => weights[other] - weights[one]);
  return [
    { name: "", places: order.slice(0, SHOWN) },
    { name: "other domains", places: order.slice(SHOWN) },
  ];
}

function explore(page, root) {
  const { names, labels } = page,
    K = names.length,
    law = page.law;
  const forecast = law ? forecastOf(law, numbersOf(law.numbers)) : null;
  const column = (values, otherwise) => Float64Array.from(values, (one) => one ?? otherwise);
  const known = Object.fromEntries(page.mixtures.map(([name, one]) => [name, column(one, 0)]));
  const least = column(page.at_least, 0),
    most = column(page.at_most, 1),
    sizes = column(page.sizes, NaN);
  const bend = K > FEW ? 3 : 2; // of the sliders: small weights have more room
  const texts = law
    ? [...law.labels, ...(forecast.Q > 1 ? [law.together] : [])]
    : [];
  const units = law ? law.units : [];
  const several = new Set(units).size > 1;
  const unitOf = (text) => (text < units.length ? units[text] : [...new Set(units)].join(" and "));
  const locked = new Array(K).fill(false),
    held = new Set();
  let weights = known["the answer"],
    mine = null;
  let compared = Object.hasOwn(known, page.baseline) ? page.baseline : Object.keys(known)[0];
  let tokens = page.tokens ?? NaN,
    cache = new Map(),
    rows = [];

  const lossesOf = (name) =>
    cache.get(name) ?? cache.set(name, forecast.targets(known[name])).get(name);

  // ---- controls
  const said = make("p", { className: "said", role: "status" });
  const buttons = [...Object.keys(known), "mine"].map((name) =>
    make("button", {
      type: "button",
      textContent: name === "baseline" ? "the baseline" : name,
      dataset: { mixture: name },
      onclick: () => show(name === "mine" ? mine : known[name]),
    }),
  );
  const length = make("input", {
    type: "text",
    size: 8,
    value: Number.isFinite(tokens) ? shortest(tokens) : "",
    placeholder: "10B",
    ariaLabel: "tokens of a run",
  });
  length.oninput = () => {
    tokens = tokensOf(length.value);
    length.classList.toggle("wrong", length.value !== "" && !Number.isFinite(tokens));
    render();
  };
  const lists = make("div", { className: "domains" });
  const matches = make("div", { className: "domains", hidden: true });
  const search = make("input", {
    type: "search",
    placeholder: `search ${K} domains`,
    ariaLabel: "search domains",
    hidden: K <= FEW,
  });
  search.oninput = () => {
    const word = search.value.trim().toLowerCase();
    rows = rows.filter((row) => row.within !== matches);
    const found = word
      ? names.map((_, k) => k).filter((k) => names[k].toLowerCase().includes(word))
      : [];
    const told =
      found.length > SHOWN ? `${SHOWN} of ${found.length} matches` : `${found.length} matches`;
    matches.replaceChildren(
      make("p", { className: "soft", textContent: told }),
      ...found.slice(0, SHOWN).map((k) => control(labels[k], [k], matches)),
    );
    matches.hidden = !word;
    lists.hidden = Boolean(word);
    render();
  };

  // A slider, a number and a lock for the weight of one domain, or of several together.
  function control(label, places, within) {
    const slider = make("input", {
      type: "range",
      min: 0,
      max: 1,
      step: "any",
      ariaLabel: `weight of ${label}`,
    });
    const number = make("input", {
      type: "number",
      min: 0,
      max: 100,
      step: "any",
      ariaLabel: `percent of ${label}`,
    });
    const lock = make("input", {
      type: "checkbox",
      title: "locked: others' sliders leave it",
      ariaLabel: `lock ${label}`,
    });
    const epochs = make("span", { className: "epochs" });
    const name = make("bdi", { className: "name", textContent: label, title: label });
    slider.oninput = () => move(Number(slider.value) ** bend);
    number.onchange = () => number.value !== "" && move(Number(number.value) / 100);
    slider.onchange = keep;
    lock.onchange = () => {
      for (const k of places) locked[k] = lock.checked;
      render();
    };
    const move = (total) => {
      if (places.every((k) => locked[k])) say(`${label} is locked.`);
      else change(moved(weights, locked, places, Math.min(Math.max(total, 0), 1)));
    };
    number.addEventListener("change", keep);
    const node = make(
      "div",
      {
        className: places.length > 1 ? "row group" : "row",
        dataset: places.length > 1 ? { group: label } : { domain: names[places[0]] },
      },
      name,
      slider,
      number,
      make("label", { className: "lock" }, lock),
      epochs,
    );
    rows.push({
      within,
      update() {
        const share = sum(places.map((k) => weights[k]));
        if (document.activeElement !== slider) slider.value = share ** (1 / bend);
        if (document.activeElement !== number) number.value = Number((100 * share).toPrecision(3));
        lock.checked = places.every((k) => locked[k]);
        slider.disabled = number.disabled = lock.checked;
        if (places.length > 1) return;
        const read = epochsOf(places[0]),
          broken = bounds(places[0]);
        epochs.textContent = Number.isFinite(read) ? times(read) : "";
        epochs.classList.toggle("often", read > OFTEN);
        node.classList.toggle("broken", broken !== "");
      },
    });
    return node;
  }

  const heads = ["domain", "", "weight, %", "lock", "epochs"].map((text) =>
    make("span", { textContent: text }),
  );
  const titles = make("div", { className: "row titles" }, ...heads);
  for (const { name, places } of groupsOf(names, weights)) {
    if (!name) {
      lists.append(...places.map((k) => control(labels[k], [k], lists)));
      continue;
    }
    const inside = make(
      "details",
      {},
      make("summary", { textContent: `${places.length} domains` }),
    );
    inside.ontoggle = () => {
      if (inside.open && inside.children.length === 1)
        inside.append(...places.map((k) => control(labels[k], [k], inside)));
      render();
    };
    lists.append(control(name, places, lists), inside);
  }

  // ---- what it shows
  const headline = make("p", { className: "headline" });
  const warnings = make("ul", { className: "warnings" });
  const beside = make(
    "select",
    { ariaLabel: "compared with" },
    ...Object.keys(known).map((name) =>
      make("option", { value: name, textContent: name, selected: name === compared }),
    ),
  );
  beside.onchange = () => {
    compared = beside.value;
    render();
  };
  const table = make("tbody");
  const lines = texts.map((text, place) => {
    const alone = place >= units.length;
    const tick = make("input", { type: "checkbox", ariaLabel: `no worse: ${text}` });
    tick.onchange = () => (tick.checked ? held.add(place) : held.delete(place));
    const lower = make("button", {
      type: "button",
      textContent: "lower",
      title: "the smallest step of the mixture that lowers it",
      dataset: { lower: text },
      onclick: () => lowerBy(place),
    });
    const name = make(
      "th",
      { scope: "row" },
      make("bdi", { textContent: text }),
      make("span", { className: "soft", textContent: several ? unitOf(place) : "" }),
      make("span", { className: "beyond" }),
    );
    const cells = ["loss", "apart", "bar"].map((className) => make("td", { className }));
    table.append(
      make(
        "tr",
        { className: alone ? "together" : "", dataset: { text } },
        name,
        ...cells,
        make("td", {}, ...(alone ? [] : [tick])),
        make("td", {}, ...(alone && law.worst ? [] : [lower])),
      ),
    );
    return { name, cells };
  });
  const noWorse = make("button", {
    type: "button",
    dataset: { move: "no-worse" },
    onclick: () => holdTicked(),
  });
  const download = make("button", {
    type: "button",
    textContent: "Download this mixture (JSON)",
    dataset: { move: "download" },
    onclick: () => save(),
  });

  const say = (text) => (said.textContent = text);
  const epochsOf = (k) => (weights[k] * tokens) / sizes[k];
  const bounds = (k) =>
    weights[k] < least[k] - BROKEN
      ? `${labels[k]} has ${percent(weights[k])}, at least ${percent(least[k])} was asked for`
      : weights[k] > most[k] + BROKEN
        ? `${labels[k]} has ${percent(weights[k])}, at most ${percent(most[k])} was asked for`
        : "";

  function show(mixture) {
    weights = mixture;
    say("");
    render();
    keep();
  }

  function change(mixture) {
    weights = mine = mixture;
    say("");
    render();
  }

  function keep() {
    try {
      history.replaceState(null, "", addressOf(weights, names));
    } catch {} // where a page may not, its address stays
  }

  // The limits of a step: the ticked targets are no worse than on the mixture that is compared.
  const onto = (text) =>
    text < forecast.Q ? forecast.shares.map((_, q) => +(q === text)) : forecast.shares;
  const meanOn = (losses, of) => sum(of.map((share, q) => share * losses[q]));
  function limitsOf() {
    const there = forecast.means(lossesOf(compared));
    return [...held].map((text) => ({ of: onto(text), loss: there[text] }));
  }
  function step(limits) {
    const lower = weights.map((one, k) => (locked[k] ? one : Math.min(least[k], one)));
    const upper = weights.map((one, k) => (locked[k] ? one : Math.max(most[k], one)));
    return forecast.nearest(weights, limits, lower, upper);
  }
  const withTicked = (text) =>
    [...held].some((one) => one !== text) ? ` and the ticked no worse than on ${compared}` : "";
  function lowerBy(text) {
    const of = onto(text),
      now = meanOn(forecast.means(forecast.targets(weights)), of);
    for (const by of LOWER) {
      const found = step([{ of, loss: now - by }, ...limitsOf()]);
      if (!found) continue;
      change(found);
      say(`${texts[text]}: lower by ${by} ${unitOf(text)}${withTicked(text)}.`);
      return keep();
    }
    say(
      `Found no step that lowers ${texts[text]} by ${LOWER.at(-1)} ${unitOf(text)}${withTicked(text)}.`,
    );
  }
  function holdTicked() {
    if (!held.size) return say(`Tick the targets that shall be no worse than on ${compared}.`);
    const found = step(limitsOf());
    if (!found)
      return say(`Found no step to where the ticked targets are no worse than on ${compared}.`);
    change(found);
    say(`The ticked targets are no worse than on ${compared}.`);
    keep();
  }

  // As `Mixture.to_json` writes it, with the weights that are shown.
  function save() {
    const shares = page.leaves.flatMap((leaves, k) =>
      leaves.map(([leaf, share]) => [leaf, weights[k] * share]),
    );
    const text =
      JSON.stringify({ ...page.file, weights: Object.fromEntries(shares) }, null, 2) + "\n";
    const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    make("a", { href: address, download: "mixture.json" }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  }

  function bar(one, reach) {
    const at = (value) => `${(50 + 50 * Math.min(Math.max(value / reach, -1), 1)).toFixed(2)}%`;
    const [low, high, middle] = [at(one.low), at(one.high), at(one.loss)];
    const line = make("i", { className: one.high < 0 ? "better" : one.low > 0 ? "worse" : "" });
    line.style.left = low;
    line.style.width = `calc(${high} - ${low})`;
    const dot = make("b");
    dot.style.left = middle;
    return make("span", { className: "track" }, line, dot);
  }

  function render() {
    for (const row of rows)
      if (
        row.within === lists
          ? !lists.hidden
          : row.within === matches
            ? !matches.hidden
            : row.within.open
      )
        row.update();
    for (const button of buttons) {
      const own = button.dataset.mixture === "mine" ? mine : known[button.dataset.mixture];
      button.disabled = !own;
      button.ariaPressed = String(own === weights);
    }
    const told = names.map((_, k) => bounds(k)).filter(Boolean);
    const broken = told.length ? [`Bounds are broken: ${listed(told)}.`] : [];
    const often = names
      .map((_, k) => [k, epochsOf(k)])
      .filter(([, read]) => read > OFTEN)
      .sort((one, other) => other[1] - one[1]);
    if (forecast) broken.push(...renderLosses());
    if (often.length)
      broken.push(
        `Read more than ${OFTEN} times: ${listed(often.map(([k, read]) => `${labels[k]} ${times(read)}`))}.`,
      );
    const unknown = sizes.filter(Number.isNaN).length;
    if (unknown && Number.isFinite(tokens))
      broken.push(
        `The size of ${unknown === K ? "the domains" : `${unknown} domain${unknown > 1 ? "s" : ""}`} is not known: no epochs.`,
      );
    warnings.replaceChildren(...broken.map((text) => make("li", { textContent: text })));
  }

  function renderLosses() {
    const ratio = forecast.ratios(weights),
      losses = forecast.targets(weights, ratio);
    const expected = forecast.expected(losses),
      apart = forecast.difference(losses, lossesOf(compared));
    const beyond = forecast.beyond(ratio);
    const largest = Math.max(...apart.map((one) => Math.max(-one.low, one.high)), 1e-3);
    const power = 10 ** Math.floor(Math.log10(largest)),
      reach =
        power * [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((one) => one * power >= largest);
    const number = (value, shown) =>
      make("data", { value: String(value), textContent: shown(value) });
    lines.forEach(({ name, cells }, text) => {
      const [one, difference] = [expected[text], apart[text]],
        plain = (value) => value.toFixed(3);
      const interval = (of, shown) =>
        make(
          "span",
          { className: "interval" },
          "(",
          number(of.low, shown),
          " to ",
          number(of.high, shown),
          ")",
        );
      cells[0].replaceChildren(number(one.loss, plain), " ", interval(one, plain));
      cells[1].replaceChildren(number(difference.loss, signed), " ", interval(difference, signed));
      cells[2].replaceChildren(bar(difference, reach));
      const far =
        text < units.length && beyond.length > 0 && forecast.madeOf(text, beyond) > TOUCHED;
      name.lastChild.textContent = far ? "beyond what was measured" : "";
    });
    const last = apart.at(-1),
      word = last.loss < 0 ? "lower" : "higher";
    headline.replaceChildren(
      make("strong", { textContent: `${Math.abs(last.loss).toFixed(3)} ${word}` }),
      ` than on ${compared}: ${texts.at(-1)}, ${unitOf(texts.length - 1)} (${range(last, signed)})`,
    );
    headline.dataset.state = last.high < 0 ? "better" : last.low > 0 ? "worse" : "open";
    noWorse.textContent = `Make the ticked no worse than on ${compared}`;
    if (!beyond.length) return [];
    const rare = beyond.length === K ? "every domain" : listed(beyond.map((k) => labels[k]));
    return [
      `Beyond what was measured: of ${rare} this run would have more than twice, or less than ` +
        "half, the effective tokens of any run that the law rests on.",
    ];
  }

  const header = ["", several ? "loss" : unitOf(0), "", "", "no worse", ""].map((text) =>
    make("th", { scope: "col", textContent: text }),
  );
  header[2].append("than on ", beside);
  const mix = make(
    "div",
    { className: "mix" },
    make("div", { className: "bar-of-buttons" }, ...buttons),
    make("p", { className: "length" }, make("label", {}, "Epochs of a run of ", length, " tokens")),
    search,
    titles,
    matches,
    lists,
  );
  const found = make("div", { className: "found" });
  if (law)
    found.append(
      warnings,
      make(
        "div",
        { className: "scroll" },
        make("table", {}, make("thead", {}, make("tr", {}, ...header)), table),
      ),
      make("div", { className: "bar-of-buttons" }, noWorse, download),
      said,
    );
  else
    found.append(
      make("p", { className: "reason", textContent: `No losses are forecast. ${page.reason}` }),
      warnings,
      download,
      said,
    );
  root.replaceChildren(...(law ? [headline] : []), mix, found);

  function readAddress() {
    const read = mixtureIn(location.hash, names);
    if (read.weights) change(read.weights);
    if (read.bad.length)
      say(
        `The address names ${read.bad.length} that ${read.bad.length > 1 ? "are" : "is"} no ` +
          `weight of a domain here: ${listed(read.bad)}. ` +
          (read.weights ? "The others count." : "None is left."),
      );
    else if (read.weights && Math.abs(read.total - 1) > 1e-3)
      say(
        `The weights of the address sum to ${Number(read.total.toPrecision(4))}; ` +
          "they count in proportion.",
      );
  }
  addEventListener("hashchange", readAddress);
  render();
  readAddress();
}

function shortest(count) {
  const [unit, size] = Object.entries(MULTIPLES)
    .reverse()
    .find(([, size]) => count >= size) ?? ["", 1];
  return `${Number((count / size).toPrecision(4))}${unit}`;
}

explore(
  JSON.parse(document.querySelector('script[type="application/json"]').textContent),
  document.querySelector(".explorer"),
);
