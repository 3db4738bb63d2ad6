"""Pairs without a sentence around them: random contents, rendered in both languages."""

import datetime
import random

from embedded_corpus import renderings
from embedded_corpus.frames import content_of
from embedded_corpus.pairs import Pair, plain_text

NO_WORDS = "number or unit that Babel or num2words lacks in the target language"
# The next smaller unit of time, and how many of it are still less than one.
SMALLER = {"hour": ("minute", 59), "day": ("hour", 23), "week": ("day", 6), "year": ("month", 11)}


def draw_date(rng, first_year=1950, last_year=2049):
    """Draws a date whose day is at most 28, so that every month has it."""
    return datetime.date(rng.randint(first_year, last_year), rng.randint(1, 12), rng.randint(1, 28))


def draw_time(rng):
    """Draws a time of day; half of them are a multiple of five minutes, as in speech."""
    minute = rng.choice([rng.randrange(0, 60, 5), rng.randrange(60)])
    return datetime.time(rng.randrange(24), minute)


def draw_value(rng):
    """Draws an amount as people name it: small and whole, with tenths, round, or large."""
    return rng.choice(
        [
            rng.randint(2, 99),
            rng.randint(2, 99),
            rng.randint(11, 999) / 10,
            rng.randrange(100, 1000, 10),
            rng.randint(100, 9999),
        ]
    )


def draw_price(rng):
    """Draws a price: a small whole one, a round one, or one with cents."""
    return rng.choice(
        [rng.randint(2, 99), rng.randrange(100, 10000, 50), rng.randint(200, 19999) / 100]
    )


def draw_number(rng, lowest=100, highest=9999):
    """Draws a number that has three digits with about the chance of four."""
    return rng.choice([rng.randint(lowest, highest), rng.randint(lowest, 999)])


def interval(make, draw):
    """Returns a function that draws two contents of one sort and renders the earlier one first."""

    def draw_pair(rng):
        start, end = sorted([draw(rng), draw(rng)])
        return make(start, end)

    return draw_pair


def draw_list(render, rng, lowest, highest):
    """Draws a list of countries, languages or cities, without repetition."""
    names, codes = rng.choice(
        [
            (lambda c: render.name("territories", c), renderings.COUNTRIES),
            (lambda c: render.name("languages", c), renderings.LANGUAGES),
            (render.city, renderings.CITIES),
        ]
    )
    chosen = rng.sample(codes, rng.randint(lowest, highest))
    return render.listing([names(code) for code in chosen], rng.choice(["standard", "or"]))


def make_date_interval(render):
    """Returns a function that draws an interval of 1 to 60 days."""

    def draw(rng):
        start = draw_date(rng)
        end = start + datetime.timedelta(days=rng.randint(1, 60))
        return render.date_interval(start, end)

    return draw


def make_duration(render):
    """Returns a function that draws two amounts of time, such as "3 hours and 20 minutes"."""

    def draw(rng):
        larger = rng.choice(list(SMALLER))
        smaller, most = SMALLER[larger]
        return render.listing(
            [
                render.amount(f"duration-{larger}", rng.randint(2, 30)),
                render.amount(f"duration-{smaller}", rng.randint(2, most)),
            ]
        )

    return draw


def make_language_in_country(render):
    """Returns a function that draws a language with a country: "German (Austria)"."""

    def draw(rng):
        language = render.name("languages", rng.choice(renderings.LANGUAGES))
        country = render.name("territories", rng.choice(renderings.COUNTRIES))
        forms = [
            f"{a} ({b})"
            for a, b in [(language.source, country.source), (language.target, country.target)]
        ]
        return renderings.plain_filler(f"{language.key}+{country.key}", *forms)

    return draw


def composition_kinds(render):
    """Returns {kind: (share of the pairs, function that draws a filler)}."""
    units, currencies = renderings.UNITS, renderings.CURRENCIES
    forms = ["full", "long", "medium", "short"]
    return {
        "number in words": (14, lambda r: render.words(draw_number(r))),
        "ordinal in words": (8, lambda r: render.words(draw_number(r), "ordinal")),
        "year in words": (2, lambda r: render.words(r.randint(1950, 2049), "year")),
        "number": (3, lambda r: render.decimal(draw_value(r), r.choice(["", "%"]))),
        "date": (14, lambda r: render.date(draw_date(r), r.choice(forms))),
        "month": (2, lambda r: render.month(r.randint(1950, 2049), r.randint(1, 12))),
        "day of the year": (1, lambda r: render.day_of_year(draw_date(r))),
        "time": (4, lambda r: render.time(draw_time(r))),
        "date and time": (12, lambda r: render.moment(draw_date(r), draw_time(r), r.choice(forms))),
        "date interval": (6, make_date_interval(render)),
        "time interval": (5, interval(render.time_interval, draw_time)),
        "relative time": (
            3,
            lambda r: render.relative(
                r.choice(list(renderings.RELATIVE_UNITS)), r.choice([-1, 1]) * r.randint(1, 60)
            ),
        ),
        "duration": (5, make_duration(render)),
        "amount": (12, lambda r: render.amount(r.choice(units), draw_value(r))),
        "price": (
            10,
            lambda r: render.price(
                r.choice(currencies), draw_price(r), r.choice(["name", "standard"])
            ),
        ),
        "list": (14, lambda r: draw_list(render, r, 2, 4)),
        "language (country)": (4, make_language_in_country(render)),
    }


def challenge_kinds(render):
    """Returns what training never shows: larger numbers, earlier years, longer lists."""
    return {
        "larger number in words": (2, lambda r: render.words(r.randint(10_000, 999_999))),
        "larger amount": (
            1,
            lambda r: render.amount(r.choice(renderings.UNITS), r.randint(100_000, 9_999_999)),
        ),
        "earlier date": (
            2,
            lambda r: render.date(draw_date(r, 1700, 1949), r.choice(["full", "long"])),
        ),
        "longer list": (3, lambda r: draw_list(render, r, 5, 8)),
    }


def make_small_numbers(render, dropped):
    """Yields the numbers below 100, of which every larger one is made."""
    for form in ("cardinal", "ordinal"):
        for value in range(100):
            try:
                filler = render.words(value, form)
            except NotImplementedError:
                dropped[NO_WORDS] += 1
                continue
            yield Pair("name", str(filler.source), str(filler.target), (f"{form}:{value}",))


def make_compositions(kinds, num_pairs, seed, dropped):
    """Draws pairs of each kind by its share; num2words lacks some languages and forms."""
    total = sum(share for share, _ in kinds.values())
    for kind, (share, draw) in kinds.items():
        rng = random.Random(f"{seed}/{kind}")
        for _ in range(round(num_pairs * share / total)):
            try:
                filler = draw(rng)
            except NotImplementedError:
                dropped[NO_WORDS] += 1
                continue
            yield Pair(
                kind,
                plain_text(str(filler.source)),
                plain_text(str(filler.target)),
                content_of([filler]),
            )
