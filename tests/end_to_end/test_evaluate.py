"""`transformer.evaluate` scores a run of any task as the command does."""

import json
import shutil

import pytest

import transformer


def reported(run, split):
    """The values in the report.json that training wrote."""
    report = json.loads((run / "results" / split / "report.json").read_text())
    return {name: report[name]["value"] for name in report if isinstance(report[name], dict)}


@pytest.mark.parametrize("name", ["classes", "text"])
def test_scores_are_those_that_training_found(name, request):
    """Catches another checkpoint, another split or another metric than the command's."""
    run = request.getfixturevalue(name)
    result = transformer.evaluate(run, verbose=False)
    (split,) = (path.name for path in (run / "results").iterdir())
    found = {key: score.value for key, score in result.scores.items()}
    theirs = reported(run, split)
    assert found and found == pytest.approx({key: theirs[key] for key in found})
    with pytest.raises(ValueError, match="beam_size has no effect on a run of"):
        transformer.evaluate(run, beam_size=2)


def test_examples_may_be_given_and_kept(classes, text, tmp_path):
    """Catches references of another class, and scores that are written where nobody asked."""
    run = shutil.copytree(classes, tmp_path / "run")
    examples = {"sources": ["a x b", "a b"], "references": ["with", "without"]}
    result = transformer.evaluate(run, **examples, save=True, verbose=False)
    assert repr(result).startswith("TaskScores(given, best (")
    (given,) = (path.name for path in (run / "results").glob("given_*"))
    assert reported(run, given)["accuracy"] == result.scores["accuracy"].value
    for scored, references, said in (
        (run, ["x"], r"classes of the run .*, not 'x'"),
        (run, None, "give both, or neither"),
        (run, ["with", "with"], "1 sources and 2 references"),
        (text, ["b"], "is scored on a split"),
    ):
        with pytest.raises(ValueError, match=said):
            transformer.evaluate(scored, sources=["a"], references=references, verbose=False)
