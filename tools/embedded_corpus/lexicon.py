"""Atomic pairs: CLDR's names of languages, territories, scripts, units, currencies and zones."""

import re

from babel import Locale, numbers, units

from embedded_corpus.pairs import Pair, plain_text

# Entries that name nothing real: unknown, private use, tests, pseudo-locales.
NOT_REAL = {
    "und",
    "mul",
    "zxx",
    "root",
    "XA",
    "XB",
    "ZZ",
    "QO",
    "XXX",
    "XTS",
    "Zxxx",
    "Zyyy",
    "Zzzz",
    "Zinh",
    "POSIX",
}


def name_tables(locale):
    """Returns {kind: {code: name}} of one locale."""
    zones = {
        f"{zone}/{form}": name
        for zone, data in locale.meta_zones.items()
        for form, name in data.get("long", {}).items()
    }
    return {
        "language": locale.languages,
        "territory": locale.territories,
        "script": locale.scripts,
        "currency": locale.currencies,
        "variant": locale.variants,
        "time zone": zones,
        **calendar_tables(locale),
    }


def city_names(locale, zones):
    """Returns {zone: city}; CLDR omits a city whose name is that of the zone."""
    return {
        zone: dict(locale.time_zones.get(zone, {})).get("city", last_part(zone)) for zone in zones
    }


def last_part(zone):
    """Returns the city in the identifier of a zone: "America/New_York" -> "New York"."""
    return zone.rsplit("/", 1)[1].replace("_", " ")


def calendar_tables(locale):
    """Returns the names of months, weekdays and quarters, in the form that stands alone."""
    named = {"month": locale.months, "weekday": locale.days, "quarter": locale.quarters}
    return {
        kind: {str(code): name for code, name in table["stand-alone"]["wide"].items()}
        for kind, table in named.items()
    }


def unit_names(locale, count):
    """Returns {unit: name beside the number `count`}, without the number."""
    names = {}
    for unit in locale.unit_display_names:
        text = units.format_unit(count, unit, locale=locale)
        name = re.sub(rf"^{count}\s+", "", text)
        # Babel answers with the key itself where a locale has no name for a unit.
        if name != text and name != unit:
            names[unit] = name
    return names


def currency_plurals(locale):
    """Returns {currency: its plural name}."""
    return {
        code: numbers.get_currency_name(code, count=7, locale=locale) for code in locale.currencies
    }


def make_lexicon(language, table, dropped):
    """Returns the atomic pairs; counts the entries left out in `dropped`, by reason."""
    english, foreign = Locale("en"), Locale.parse(language)
    sources, targets = name_tables(english), name_tables(foreign)
    zones = [zone for zone, data in foreign.time_zones.items() if "city" in data]
    for kind, names in [
        ("city", lambda locale: city_names(locale, zones)),
        ("unit", lambda locale: unit_names(locale, 1)),
        ("units", lambda locale: unit_names(locale, 7)),
        ("currencies", currency_plurals),
    ]:
        sources[kind], targets[kind] = names(english), names(foreign)
    pairs = []
    for kind, names in sources.items():
        for code in sorted(names):
            pairs += atomic_pair(kind, code, names[code], targets[kind].get(code), table, dropped)
    return pairs


def atomic_pair(kind, code, source, target, table, dropped):
    """Returns a list of one pair, or of none if the entry is unfit."""
    reason = None
    if code in NOT_REAL or "unknown" in source.lower():
        reason = "lexicon: pseudo-locale, unknown or private entry"
    elif not target or target == code:
        reason = "lexicon: no name in the target language"
    elif table and table.is_misinflected(kind, target):
        reason = "lexicon: singular given as a plural"
    if reason:
        dropped[reason] += 1
        return []
    return [Pair("name", plain_text(source), plain_text(target), (f"{kind}:{code}",))]
