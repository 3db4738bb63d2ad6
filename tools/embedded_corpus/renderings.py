"""Renders dates, times, amounts, numbers and lists in any language, by CLDR and num2words."""

import datetime
import re

from babel import Locale, dates, lists, numbers, units
from num2words import num2words

from embedded_corpus.frames import plain_filler
from embedded_corpus.lexicon import city_names

# Well-known names, so that each comes often; countries whose German name needs no article.
COUNTRIES = [
    "AR", "AT", "AU", "BE", "BG", "BR", "CA", "CL", "CN", "CO", "CU", "CZ", "DE", "DK", "EE",
    "EG", "ES", "ET", "FI", "FR", "GR", "HR", "HU", "ID", "IE", "IN", "IS", "IT", "JO", "JP",
    "KE", "KR", "LT", "LU", "LV", "MA", "MT", "MX", "NG", "NO", "NP", "NZ", "PE", "PL", "PT",
    "RO", "RS", "RU", "SA", "SE", "SI", "TH", "TN", "TZ", "VN", "ZA",
]  # fmt: skip
LANGUAGES = [
    "ar", "bg", "ca", "cs", "da", "de", "el", "en", "es", "et", "fa", "fi", "fr", "he", "hi",
    "hr", "hu", "hy", "id", "is", "it", "ja", "ka", "ko", "la", "lt", "lv", "nl", "no", "pl",
    "pt", "ro", "ru", "sk", "sl", "sq", "sr", "sv", "th", "tr", "uk", "vi", "zh",
]  # fmt: skip
CITIES = [
    "Europe/Berlin", "Europe/Vienna", "Europe/Rome", "Europe/Paris", "Europe/London",
    "Europe/Madrid", "Europe/Lisbon", "Europe/Athens", "Europe/Moscow", "Europe/Warsaw",
    "Europe/Prague", "Europe/Budapest", "Europe/Dublin", "Europe/Copenhagen",
    "Europe/Stockholm", "Europe/Oslo", "Europe/Helsinki", "Europe/Brussels", "Europe/Amsterdam",
    "Europe/Istanbul", "Europe/Zurich", "Europe/Bucharest", "Africa/Cairo", "Africa/Nairobi",
    "Asia/Tokyo", "Asia/Seoul", "Asia/Shanghai", "Asia/Singapore", "Asia/Bangkok", "Asia/Dubai",
    "America/New_York", "America/Chicago", "America/Los_Angeles", "America/Toronto",
    "America/Havana", "America/Lima", "Australia/Sydney",
]  # fmt: skip
CURRENCIES = [
    "EUR", "USD", "GBP", "JPY", "CHF", "CAD", "AUD", "SEK", "NOK", "DKK", "PLN", "CZK", "INR",
    "MXN", "NZD", "SGD", "TRY", "RUB", "KRW",
]  # fmt: skip
UNITS = [
    "length-kilometer", "length-meter", "length-centimeter", "length-millimeter", "length-mile",
    "length-foot", "length-inch", "mass-kilogram", "mass-gram", "mass-milligram", "mass-pound",
    "mass-ounce", "volume-liter", "volume-milliliter", "volume-gallon", "volume-cup",
    "duration-hour", "duration-minute", "duration-second", "duration-day", "duration-week",
    "duration-month", "duration-year", "speed-kilometer-per-hour", "speed-mile-per-hour",
    "temperature-celsius", "temperature-fahrenheit", "concentr-percent", "area-square-meter",
    "area-square-kilometer", "area-hectare", "volume-cubic-meter", "power-kilowatt",
    "power-watt", "energy-kilowatt-hour", "energy-kilocalorie", "electric-volt",
    "digital-megabyte", "digital-gigabyte", "graphics-pixel",
]  # fmt: skip
RELATIVE_UNITS = {
    "year": 365 * 86400,
    "month": 30 * 86400,
    "week": 7 * 86400,
    "day": 86400,
    "hour": 3600,
    "minute": 60,
    "second": 1,
}


def number_keys(value):
    """Returns the keys of a number; small whole ones are a closed class, all of it in train."""
    return () if value < 100 and value == int(value) else (f"number:{value}",)


class Renderings:
    """Renders contents: each method returns a filler in English and in `language`."""

    def __init__(self, language, polish=lambda text: text):
        self.locales = (Locale("en"), Locale.parse(language))
        self.language = language
        self.polish = polish
        # A locale writes 13 to 24 if its own short time has an `H`.
        self.is_24_hours = "H" in self.locales[1].time_formats["short"].pattern

    def both(self, key, render, open_keys=()):
        """Returns the filler that `render` gives, called with each locale in turn."""
        source, target = (render(locale) for locale in self.locales)
        return plain_filler(key, source, self.polish(target), open_keys)

    def name(self, kind, code):
        """Renders the name of a language, territory and the like."""
        return self.both(f"{kind}:{code}", lambda locale: getattr(locale, kind)[code])

    def city(self, zone):
        """Renders the city of a time zone."""
        return self.both(f"city:{zone}", lambda locale: city_names(locale, [zone])[zone])

    def weekday(self, index):
        """Renders a weekday, 0 for Monday."""
        return self.both(f"weekday:{index}", lambda locale: locale.days["format"]["wide"][index])

    def date(self, day, form="long"):
        """Renders a date in one of the four forms of CLDR."""
        return self.both(
            f"date:{day}", lambda locale: dates.format_date(day, form, locale), (f"date:{day}",)
        )

    def month(self, year, month, skeleton="yMMMM"):
        """Renders a month of a year."""
        day = datetime.datetime(year, month, 1)
        key = f"month:{year}-{month}"
        return self.both(
            key, lambda locale: dates.format_skeleton(skeleton, day, locale=locale), (key,)
        )

    def day_of_year(self, day):
        """Renders a day and its month."""
        key = f"day:{day.month}-{day.day}"
        moment = datetime.datetime(day.year, day.month, day.day)
        return self.both(
            key, lambda locale: dates.format_skeleton("MMMMd", moment, locale=locale), (key,)
        )

    def time(self, time, form="short"):
        """Renders a time of day."""
        key = f"time:{time}"
        return self.both(key, lambda locale: dates.format_time(time, form, locale=locale), (key,))

    def moment(self, day, time, form):
        """Renders a date with a time of day."""

        def render(locale):
            # Babel would add seconds and the zone to a long form.
            clock = dates.format_time(time, "short", locale=locale)
            pattern = str(locale.datetime_formats[form]).replace("'", "")
            return pattern.format(clock, dates.format_date(day, form, locale))

        return self.both(f"moment:{day}T{time}", render, (f"date:{day}", f"time:{time}"))

    def date_interval(self, start, end):
        """Renders an interval of dates."""

        def render(locale):
            return dates.format_interval(start, end, "yMMMd", locale=locale)

        return self.both(f"interval:{start}/{end}", render, (f"date:{start}", f"date:{end}"))

    def time_interval(self, start, end):
        """Renders an interval of times of day."""

        def render(locale):
            hours = "Hm" if self.is_24_hours and locale != self.locales[0] else "hm"
            moments = [
                datetime.datetime.combine(datetime.date(2000, 1, 1), t) for t in (start, end)
            ]
            return dates.format_interval(*moments, hours, locale=locale)

        return self.both(f"interval:{start}/{end}", render, (f"time:{start}", f"time:{end}"))

    def relative(self, unit, count, in_words=False):
        """Renders a time `count` units away: in the past if it is negative."""
        delta = datetime.timedelta(seconds=count * RELATIVE_UNITS[unit])

        def render(locale):
            text = dates.format_timedelta(
                delta, granularity=unit, threshold=10**9, add_direction=True, locale=locale
            )
            words = num2words(abs(count), lang=locale.language) if in_words else str(abs(count))
            return re.sub(r"\d+", words, text)

        return self.both(f"relative:{unit}:{count}", render)

    def amount(self, unit, value):
        """Renders a number with its unit; raises NotImplementedError if a locale lacks the unit."""

        def render(locale):
            text = units.format_unit(value, unit, locale=locale)
            if unit in text:
                raise NotImplementedError(f"{locale} has no name for {unit}, Babel gave its key")
            return text

        return self.both(f"amount:{unit}:{value}", render, number_keys(value))

    def price(self, currency, value, form="name"):
        """Renders an amount of money, with the name or the sign of its currency."""

        def render(locale):
            whole = value == int(value)
            pattern = None if form == "standard" or not whole else "#,##0 ¤¤¤"
            style = "standard" if pattern else form
            return numbers.format_currency(
                value, currency, pattern, locale, format_type=style, currency_digits=not whole
            )

        return self.both(f"price:{currency}:{value}", render, number_keys(value))

    def decimal(self, value, sign=""):
        """Renders a number in digits, or a percentage for the sign "%"."""

        def render(locale):
            if sign == "%":
                return numbers.format_percent(
                    value / 100, locale=locale, decimal_quantization=False
                )
            return numbers.format_decimal(value, locale=locale)

        return self.both(f"decimal:{value}{sign}", render, number_keys(value))

    def words(self, value, form="cardinal"):
        """Renders a number in words: cardinal, ordinal or a year."""
        return self.both(
            f"number:{value}",
            lambda locale: num2words(value, lang=locale.language, to=form),
            number_keys(value),
        )

    def listing(self, fillers, style="standard"):
        """Joins fillers with "and", or with "or"."""
        sides = [f.source for f in fillers], [f.target for f in fillers]
        source, target = (
            lists.format_list([str(form) for form in forms], style, locale)
            for forms, locale in zip(sides, self.locales, strict=True)
        )
        keys = sorted(f.key for f in fillers)
        return plain_filler("list:" + "+".join(keys), source, target, ("list:" + "+".join(keys),))
