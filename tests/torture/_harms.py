"""What `damage` does to a folder: each returns a sentence, or "" if it could not be done."""

import json
import shutil


def flip(rng, run, other):
    file = choose_file(rng, run)
    data = bytearray(file.read_bytes())
    if not data:
        return ""
    place = rng.randrange(len(data))
    data[place] ^= 1 << rng.randrange(8)
    file.write_bytes(data)
    return f"a bit of byte {place} of {file.relative_to(run)} flipped"


def truncate(rng, run, other):
    file = choose_file(rng, run)
    data = file.read_bytes()
    length = rng.randrange(len(data) + 1)
    file.write_bytes(data[:length])
    return f"{file.relative_to(run)} cut to {length} of {len(data)} bytes" * (length < len(data))


def zero(rng, run, other):
    file = choose_file(rng, run)
    data = file.read_bytes()
    start = rng.randrange(len(data) + 1)
    end = min(len(data), start + rng.choice((16, 512, 4096)))
    file.write_bytes(data[:start] + bytes(end - start) + data[end:])
    return f"bytes {start} to {end} of {file.relative_to(run)} set to 0"


def append_junk(rng, run, other):
    file = choose_file(rng, run)
    with file.open("ab") as opened:
        opened.write(rng.randbytes(20))
    return f"20 bytes appended to {file.relative_to(run)}"


def remove(rng, run, other):
    path = rng.choice([*files_of(run), *folders_of(run)])
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    return f"{path.relative_to(run)} removed"


def make_folder(rng, run, other):
    file = choose_file(rng, run)
    file.unlink()
    file.mkdir()
    return f"a folder in the place of {file.relative_to(run)}"


def exchange(rng, run, other):
    places = folders_of(run) if rng.random() < 0.3 else files_of(run)
    one, two = rng.sample(places, 2)
    if one in two.parents or two in one.parents:
        return ""
    aside = run / "aside"
    one.rename(aside), two.rename(one), aside.rename(two)
    return f"{one.relative_to(run)} and {two.relative_to(run)} exchanged"


def rename_step(rng, run, other):
    folder = rng.choice([path for path in (run / "checkpoints").iterdir() if path.is_dir()])
    name = rng.choice(("10", "80", "5", "x", f"0{folder.name}"))
    folder.rename(folder.with_name(name))
    return f"{folder.relative_to(run)} renamed to {name}"


def take_from_other(rng, run, other):
    """Takes a file or a folder of a run of another network, whose arrays have the same shapes."""
    path = rng.choice([*files_of(other), *folders_of(other)])
    place = run / path.relative_to(other)
    if place.is_dir():
        shutil.rmtree(place)
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(path, place) if path.is_dir() else shutil.copyfile(path, place)
    return f"{place.relative_to(run)} taken from another run"


def change_setting(rng, run, other):
    file = run / "config.json"
    groups = json.loads(file.read_text())
    group = groups[rng.choice([name for name, value in groups.items() if isinstance(value, dict)])]
    name = rng.choice(list(group))
    value = group[name]
    group[name] = not value if isinstance(value, bool) else value * 2 if value else value
    file.write_text(json.dumps(groups))
    return f"config.json: {name} changed from {value!r} to {group[name]!r}"


def leave_stray(rng, run, other):
    folder = rng.choice([run, *folders_of(run)])
    stray = folder / rng.choice(("stray.tmp", "70", "metrics.jsonl.tmp", "d", ".DS_Store"))
    if stray.exists():
        return ""
    stray.mkdir() if rng.random() < 0.5 else stray.write_bytes(b"?")
    return f"{stray.relative_to(run)} added"


HARMS = [flip, flip, truncate, zero, append_junk, remove, make_folder, exchange, rename_step]
HARMS += [take_from_other, change_setting, leave_stray]


def files_of(run):
    return sorted(path for path in run.rglob("*") if path.is_file())


def folders_of(run):
    return sorted(path for path in run.rglob("*") if path.is_dir())


def choose_file(rng, run):
    """Returns any file, half of the time one outside the arrays, which are most of the files."""
    files = files_of(run)
    small = [file for file in files if "d" not in file.parts[-2:-1]]
    return rng.choice(small if small and rng.random() < 0.5 else files)
