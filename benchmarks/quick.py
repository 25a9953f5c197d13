"""The daily form: tidelog alone, a few minutes, and the change since the last stored run of this machine.

    python benchmarks/quick.py [--lines produce,fetch] [--against results/quick/some.json] [--forget]

Every round starts the broker anew.  A figure is the median of the rounds, ± half of their range, widened as few rounds ask for;
`same` means that now and before lie within both.  Runs are kept in `benchmarks/results/quick/`; --forget keeps none.
Compare runs only of a machine that does nothing else, or run the old tree and the new in turn.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from compare import measure
from suite.charts import short
from suite.report import FIGURES, SHOWN
from suite.samples import RESULTS, Run, load
from suite.scales import SCALES
from suite.spread import Spread, changed, margin, spread
from suite.systems.tidelog import Tidelog

KEPT = RESULTS / "quick"
LINES = ["footprint", "paper", "produce", "fetch", "latency"]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lines", type=lambda text: text.split(","), default=LINES)
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--scale", choices=sorted(SCALES), default="quick")
    parser.add_argument("--against", type=Path, help="a stored run, instead of the last")
    parser.add_argument("--forget", action="store_true", help="do not keep this run")
    options = parser.parse_args(arguments)
    stored = options.against or last_of(options.scale)
    before = load(stored) if stored else None
    began = time.monotonic()
    keep = KEPT / time.strftime("%Y%m%d-%H%M%S.json", time.gmtime())
    facts = before.facts if before else {}  # latencies compare at the same rates only
    run = measure(SCALES[options.scale], [Tidelog()], options.lines, options.rounds, keep, facts)
    if options.forget:
        keep.unlink()
    print(
        f"\n{time.monotonic() - began:.0f} s" + (f", compared with {stored.name}" if stored else "")
    )
    print("\n".join(compared(run, before)))
    return 0


def last_of(scale: str, kept: Path = KEPT) -> Path | None:
    """The last stored run of the same scale: others do not compare."""
    for path in sorted(kept.glob("*.json"), reverse=True):
        if load(path).scale["name"] == scale:
            return path
    return None


def compared(run: Run, before: Run | None) -> list[str]:
    """A line for each figure: now, before, and the change."""
    found, counted = [], {"same": 0, "up": 0, "down": 0}
    for line, figures in SHOWN.items():
        for case in dict.fromkeys(each.case for each in run.of(line)):
            for figure in figures:
                now = spread(run.values(line, case, "tidelog", figure).values())
                if now is None:
                    continue
                text = f"{line:9} {case:36} {FIGURES[figure]:28} {short(now.median):>8} ±{_share(now):>4}"
                then = before and spread(before.values(line, case, "tidelog", figure).values())
                if then:
                    word = changed(now, then)
                    counted[word] += 1
                    change = (now.median / then.median - 1) if then.median else 0.0
                    text += f"   before {short(then.median):>8} ±{_share(then):>4}   {change:+7.1%}"
                    text += "" if word == "same" else f"   {word}"
                found.append(text)
    if before:
        found.append("  ".join(f"{word} {count}" for word, count in counted.items()))
    return found


def _share(found: Spread) -> str:
    return f"{margin(found) / found.median:.0%}" if found.median else "–"


if __name__ == "__main__":
    sys.exit(main())
