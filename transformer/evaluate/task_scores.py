"""What is found of a test set that is not one of translations: scores, and what a reader asks."""

import json
from dataclasses import dataclass, field

import transformer
from transformer.evaluate.metrics import Score
from transformer.storage import write_atomically


@dataclass
class TaskScores:
    """scores by name, the first one first; details: lines; rows: one for each example, as JSON."""

    checkpoint: str
    corpus: str
    scores: dict[str, Score]
    details: list[str] = field(default_factory=list)
    rows: list[dict] = field(default_factory=list)
    samples: list[str] = field(default_factory=list)

    def lines(self):
        """What a person reads first: a line a score, each with its signature."""
        return [str(score) for score in self.scores.values()]

    def detail_lines(self):
        """What else is worth knowing."""
        return self.details

    def sample_lines(self):
        """Some outputs beside what they should have been."""
        return self.samples

    def to_json(self):
        """What report.json holds."""
        scores = {name: score.to_json() for name, score in self.scores.items()}
        about = {"checkpoint": self.checkpoint, "corpus": self.corpus}
        return {"version": transformer.__version__, **about, **scores, "details": self.details}

    def save(self, workdir, name):
        """Writes results/NAME/ of a work directory; returns the path of its report.json."""
        folder = workdir / "results" / name
        contents = {"report.json": json.dumps(self.to_json(), indent=2, ensure_ascii=False) + "\n"}
        if self.rows:
            lines = (json.dumps(row, ensure_ascii=False) for row in self.rows)
            contents["examples.jsonl"] = "".join(f"{line}\n" for line in lines)
        if workdir.writes:
            folder.mkdir(parents=True, exist_ok=True)
            for file, content in contents.items():
                write_atomically(folder / file, content)
        return folder / "report.json"
