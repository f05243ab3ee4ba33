"""A proxy on fixed weights that a signal broke off, and the state of proxies in files."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bydore_pyro.data import Domains
from bydore_pyro.proxy.proxy import Proxy
from bydore_pyro.utils import Interrupted, appearing_folder, deferred, read_tree, write_tree

__all__ = ["kept_on_signal", "proxy_content", "restore_proxy"]


def proxy_content(proxy: Proxy, domains: Domains) -> dict[str, Any]:
    """Returns what a proxy's next step depends on, and what it cost; for `write_tree`."""
    cost = proxy.cost
    return {
        "proxy": {
            "model": dict(proxy.model.state_dict()),
            "optimizer": proxy.optimizer.state_dict(),
            "steps": proxy.steps,
        },
        "cost": {part: dict(getattr(cost, part)) for part in ("tokens", "flops", "seconds")},
        "domains": domains.state(),
    }


def restore_proxy(proxy: Proxy, domains: Domains, content: Mapping[str, Any]) -> None:
    """Sets a proxy that has taken no step to what `proxy_content` gave."""
    proxy.model.load_state_dict(content["proxy"]["model"])
    proxy.optimizer.load_state_dict(content["proxy"]["optimizer"])
    proxy.steps = content["proxy"]["steps"]
    for part, values in content["cost"].items():
        getattr(proxy.cost, part).update(values)
    domains.restore(content["domains"])


@contextmanager
def kept_on_signal(
    place: Path, belongs: Mapping[str, Any], proxy: Proxy, domains: Domains
) -> Iterator[Callable[[], None]]:
    """Keeps a proxy in training when a signal asks for the end, and goes on with a kept one.

    Args:
        place: The folder where it is kept until it is finished.
        belongs: What it is trained on and how, plain values; another's is not gone on with.
        proxy: Before its first step; where one was kept it has taken its steps on entry.
        domains: Where its batches come from.

    Yields:
        A function to call behind every step.

    Raises:
        Interrupted: By that function, when the proxy has been kept.
    """
    try:
        header, content = read_tree(place)
        if header == {**belongs}:
            restore_proxy(proxy, domains, content)
    except ValueError:
        pass  # there is none, or it is damaged: beginning anew costs one proxy

    def check() -> None:
        if number := asked():
            shutil.rmtree(place, ignore_errors=True)
            with appearing_folder(place) as aside:
                write_tree(aside, proxy_content(proxy, domains), belongs)
            raise Interrupted(number)

    with deferred() as asked:
        yield check
    shutil.rmtree(place, ignore_errors=True)
