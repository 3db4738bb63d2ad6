"""What is particular to German: slots of the frames, inflection, and slips of CLDR's German."""

import re

from embedded_corpus import german_frames, german_words, renderings
from embedded_corpus.compositions import draw_date, draw_price, draw_time
from embedded_corpus.frames import Filler, Forms, plain_filler

# Prices after "von" are in the dative, which only an adjective would show.
UNINFLECTED_CURRENCIES = ["EUR", "USD", "CHF", "NZD", "SGD"]


def rows(text):
    """Parses a table of german_words.py: one row per line, columns separated by "|"."""
    return [line.split("|") for line in text.strip().split("\n")]


def polish(text):
    """Lower-cases the adjective of a currency inside a phrase: "5 britische Pfund"."""
    return re.sub(
        r"(?<=\d )([A-ZÄÖÜ])(?=[a-zäöüß]*ische )", lambda match: match.group().lower(), text
    )


def is_misinflected(kind, name):
    """Whether CLDR gives a singular as the plural, as for some obsolete currencies."""
    return kind == "currencies" and re.match(r"\S+isch(er|es)\b", name) is not None


def people():
    """Yields the persons, each with its pronoun in both languages."""
    for name, german, pronoun, german_pronoun in rows(german_words.PEOPLE):
        yield Filler(
            f"person:{name}",
            Forms(name=name, pronoun=pronoun),
            Forms(name=german, pronoun=german_pronoun),
        )


def activities():
    """Yields the activities, each with the forms of its verb and its object.

    A separable prefix goes to the end of a main clause and encloses "zu" elsewhere.
    """
    for *verb, thing, german_thing, stem, second, prefix, participle, aux in rows(
        german_words.ACTIVITIES
    ):
        english = Forms(
            zip(
                ["base", "third", "past", "participle"],
                [f"{form} {thing}" for form in verb],
                strict=True,
            )
        )
        german = Forms(
            object=german_thing,
            infinitive=prefix + stem,
            second=second,
            prefix=prefix,
            zu=f"{prefix}zu{stem}" if prefix else f"zu {stem}",
            final=prefix + second,
            participle=participle,
            aux=aux,
            had={"hat": "hatte", "ist": "war"}[aux],
        )
        yield Filler(f"do:{english.base}", english, german)


def things():
    """Yields the things, each with its pronoun in both languages."""
    for name, german, pronoun in rows(german_words.THINGS):
        yield Filler(
            f"thing:{name}", Forms(name=name, pronoun="it"), Forms(name=german, pronoun=pronoun)
        )


def countries(render):
    """Yields the countries, each with its prepositions in both languages."""
    for code in renderings.COUNTRIES:
        name = render.name("territories", code)
        yield country(
            str(name.source),
            *(f"{preposition} {name.target}" for preposition in ("in", "nach", "aus", "von")),
        )
    for row in rows(german_words.ARTICLE_COUNTRIES):
        yield country(*row)


def country(name, inside, to, out, away):
    """Returns a country, given its name and the German for "in", "to", "from" and "away from"."""
    english = {"in": f"in {name}", "to": f"to {name}", "from": f"from {name}"}
    german = {"in": inside, "to": to, "out": out, "away": away}
    return Filler(f"country:{name}", Forms(english), Forms(german))


def inflected_languages(render):
    """Yields languages that German inflects: "aus dem Englischen ins Deutsche"."""
    for code in renderings.LANGUAGES:
        filler = render.name("languages", code)
        german = str(filler.target)
        if german.endswith("isch") or code == "de":
            forms = Forms(name=german, dative=f"{german}en", weak=f"{german}e")
            yield Filler(filler.key, filler.source, forms)


def closed(kind, text):
    """Returns the fillers of a word list."""
    return [plain_filler(f"{kind}:{name}", name, german) for name, german in rows(text)]


def draw_part(render, rng):
    """Draws a number out of a larger number; the reverse would be nonsense."""
    part, whole = sorted(rng.sample(range(3, 1000), 2))
    left, right = render.decimal(part), render.decimal(whole)
    return plain_filler(
        f"part:{part}/{whole}",
        f"{left.source} of the {right.source}",
        f"{left.target} der {right.target}",
        left.open_keys + right.open_keys,
    )


def draw_many(render, rng):
    """Draws a number in words that fits before a plural: none that ends in "eins"."""
    return render.words(rng.choice([n for n in range(12, 1000) if n % 100 != 1]))


def draw_some(render, rng, fillers, style):
    """Draws a list of two to four fillers."""
    return render.listing(rng.sample(fillers, rng.randint(2, 4)), style)


class German:
    """A language with its own frames, as the generator uses it."""

    frames = german_frames.FRAMES
    is_misinflected = staticmethod(is_misinflected)
    polish = staticmethod(polish)

    def __init__(self, render):
        self.slots = {**closed_slots(render), **open_slots(render)}


def closed_slots(render):
    """Returns {slot: function of a random generator} of the slots with a word list."""
    person, do, land = list(people()), list(activities()), list(countries(render))
    speech = [render.name("languages", code) for code in renderings.LANGUAGES]
    inflected = list(inflected_languages(render))
    city = [render.city(zone) for zone in renderings.CITIES]
    food = closed("food", german_words.FOODS)
    words = {
        "person": person,
        "other": person,
        "do": do,
        "also": do,
        "country": land,
        "land": land,
        "language": speech,
        "tongue": speech,
        "original": inflected,
        "version": inflected,
        "city": city,
        "town": city,
        "food": food,
        "extra": food,
        "goods": closed("goods", german_words.GOODS),
        "thing": list(things()),
        "future": closed("future", german_words.FUTURE),
        "past": closed("past", german_words.PAST),
        "weekday": [render.weekday(index) for index in range(7)],
    }
    slots = {
        name: lambda rng, fillers=fillers: rng.choice(fillers) for name, fillers in words.items()
    }
    slots["foods"] = lambda rng: draw_some(render, rng, food, "standard")
    slots["languages"] = lambda rng: draw_some(render, rng, speech, "or")
    return slots


def open_slots(render):
    """Returns {slot: function of a random generator} of numbers, dates and amounts."""
    return {
        "ago": lambda rng: render.relative(
            rng.choice(["day", "week", "month", "year"]), -rng.randint(2, 12), in_words=True
        ),
        "clock": lambda rng: render.time(draw_time(rng)),
        "hour": lambda rng: render.time(draw_time(rng)),
        "month": lambda rng: render.month(rng.randint(1980, 2024), rng.randint(1, 12)),
        "past_date": lambda rng: render.date(draw_date(rng, 1950, 2024)),
        "coming_date": lambda rng: render.date(draw_date(rng, 2025, 2049)),
        "hours": lambda rng: render.amount("duration-hour", rng.randint(2, 20)),
        "sum": lambda rng: render.price(
            rng.choice(UNINFLECTED_CURRENCIES), rng.randrange(200, 10000, 50)
        ),
        "price": lambda rng: render.price(rng.choice(renderings.CURRENCIES), draw_price(rng)),
        "few": lambda rng: render.words(rng.randint(2, 30)),
        "many": lambda rng: draw_many(render, rng),
        "distance": lambda rng: render.amount("length-kilometer", rng.randint(2, 99)),
        "weight": lambda rng: render.amount("mass-gram", rng.randrange(50, 1000, 10)),
        "spoons": lambda rng: render.amount("volume-tablespoon", rng.randint(2, 12)),
        "part": lambda rng: draw_part(render, rng),
    }
