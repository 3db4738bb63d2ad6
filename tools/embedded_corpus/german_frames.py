"""Hand-written English-German sentence frames; slots are declared in german.py."""

# ruff: noqa: E501 (a row of a table is one line)

# Each frame: English, then German. `{slot.form}` names a form of a filler; a bare `{slot}`
# is its only form. Adverbs come before objects in German, so that every object fits.
FRAMES = """
{person} wants to {do.base} on {weekday}.
{person} will am {weekday} {do.object} {do.infinitive}.

{person} {do.past} {ago}.
{person} {do.aux} {ago} {do.object} {do.participle}.

{ago}, {person} {do.past}.
{ago} {do.aux} {person} {do.object} {do.participle}.

{person} {do.past} {past}.
{person} {do.aux} {past} {do.object} {do.participle}.

We are staying at home because {person} has to {do.base}.
Wir bleiben zu Hause, weil {person} {do.object} {do.infinitive} muss.

{person} says that {person.pronoun} will {do.base} {future}.
{person} sagt, dass {person.pronoun} {future} {do.object} {do.infinitive} wird.

If {person} {do.third} on {weekday}, {other} will be glad.
Wenn {person} am {weekday} {do.object} {do.final}, wird sich {other} freuen.

Does {person} want to {do.base} {future}?
Will {person} {future} {do.object} {do.infinitive}?

{person} is trying to {do.base} before {clock}.
{person} versucht, vor {clock} Uhr {do.object} {do.zu}.

It is already {clock}, and {person} still has to {do.base}.
Es ist schon {clock} Uhr, und {person} muss noch {do.object} {do.infinitive}.

Before {person} {do.third}, {person.pronoun} has to {also.base}.
Bevor {person} {do.object} {do.final}, muss {person.pronoun} {also.object} {also.infinitive}.

{person} promised to {do.base} on {weekday}.
{person} hat versprochen, am {weekday} {do.object} {do.zu}.

We do not know whether {person} {do.past} {past}.
Wir wissen nicht, ob {person} {past} {do.object} {do.participle} {do.aux}.

Every {weekday}, {person} {do.third}.
Jeden {weekday} {do.second} {person} {do.object} {do.prefix}.

{person} was too tired to {do.base}.
{person} war zu müde, um {do.object} {do.zu}.

The woman who {do.past} {ago} comes {country.from}.
Die Frau, die {ago} {do.object} {do.participle} {do.aux}, kommt {country.out}.

After {person} had {do.participle}, {person.pronoun} {also.past}.
Nachdem {person} {do.object} {do.participle} {do.had}, {also.aux} {person.pronoun} {also.object} {also.participle}.

{person} should have {do.participle} {past}.
{person} hätte {past} {do.object} {do.infinitive} sollen.

{other} has asked me to {do.base} {future}.
{other} hat mich gebeten, {future} {do.object} {do.zu}.

Because they only speak {language}, they moved {country.to} {ago}.
Weil sie nur {language} sprechen, sind sie {ago} {country.to} gezogen.

{person} has been living {country.in} since {month}.
{person} lebt seit {month} {country.in}.

{person} comes {country.from} and speaks {language} and {tongue}.
{person} kommt {country.out} und spricht {language} und {tongue}.

{person} would like to learn {language} before {person.pronoun} travels {country.to}.
{person} möchte {language} lernen, bevor {person.pronoun} {country.to} reist.

Do you know how many people {country.in} speak {language}?
Wissen Sie, wie viele Menschen {country.in} {language} sprechen?

The book was translated from {original} into {version} {ago}.
Das Buch wurde {ago} aus dem {original.dative} ins {version.weak} übersetzt.

The flight {country.from} {land.to} takes {hours}.
Der Flug {country.away} {land.to} dauert {hours}.

On {past_date}, {person} flew {country.to}.
Am {past_date} ist {person} {country.to} geflogen.

{person} was born {country.in} on {past_date}.
{person} wurde am {past_date} {country.in} geboren.

When {person} arrived {country.in} {ago}, nobody could speak {language}.
Als {person} {ago} {country.in} ankam, konnte niemand {language} sprechen.

{person} arrived in {city} at {clock} and in {town} at {hour}.
{person} kam um {clock} Uhr in {city} und um {hour} Uhr in {town} an.

{person} {do.past} {past}, but {other} wants to {also.base} {future}.
{person} {do.aux} {past} {do.object} {do.participle}, aber {other} will {future} {also.object} {also.infinitive}.

Although {person} had to {do.base} on {weekday}, {person.pronoun} {also.past} before {clock}.
Obwohl {person} am {weekday} {do.object} {do.infinitive} musste, {also.aux} {person.pronoun} vor {clock} Uhr {also.object} {also.participle}.

{person} told us that {other} {do.past} {past} and is now traveling {country.to}.
{person} hat uns erzählt, dass {other} {past} {do.object} {do.participle} {do.aux} und jetzt {country.to} reist.

The letter that {person} sent {country.to} {ago} did not arrive until {weekday}.
Der Brief, den {person} {ago} {country.to} geschickt hat, ist erst am {weekday} angekommen.

{person} does not believe that the train to {city} will arrive before {clock} on {weekday}.
{person} glaubt nicht, dass der Zug nach {city} am {weekday} vor {clock} Uhr ankommen wird.

Although {thing} cost {price}, {person} bought {thing.pronoun} {past}.
Obwohl {thing} {price} gekostet hat, hat {person} {thing.pronoun} {past} gekauft.

The man who speaks {language} and {tongue} was born {country.in} on {past_date}.
Der Mann, der {language} und {tongue} spricht, wurde am {past_date} {country.in} geboren.

If the train arrives in {city} at {clock}, {person} can {do.base} before {hour}.
Wenn der Zug um {clock} Uhr in {city} ankommt, kann {person} vor {hour} Uhr {do.object} {do.infinitive}.

The company has sold goods worth {sum} {country.to}.
Die Firma hat Waren im Wert von {sum} {country.to} verkauft.

The train to {city} leaves at {clock} and arrives at {hour}.
Der Zug nach {city} fährt um {clock} Uhr ab und kommt um {hour} Uhr an.

The meeting on {weekday} does not start until {clock}.
Die Sitzung am {weekday} beginnt erst um {clock} Uhr.

The museum in {city} is closed until {coming_date}.
Das Museum in {city} ist bis zum {coming_date} geschlossen.

{person} has to get up at {clock} on {weekday}.
{person} muss am {weekday} um {clock} Uhr aufstehen.

The conference will take place in {city} on {coming_date}.
Die Konferenz wird am {coming_date} in {city} stattfinden.

Since {month}, {thing} has cost {price}.
Seit {month} kostet {thing} {price}.

{country.in}, {thing} costs {price}.
{country.in} kostet {thing} {price}.

If {thing} costs more than {price}, {person} will not buy anything.
Wenn {thing} mehr als {price} kostet, wird {person} nichts kaufen.

For {price}, {person} bought {few} {goods}.
Für {price} hat {person} {few} {goods} gekauft.

{person} counted {many} {goods}.
{person} hat {many} {goods} gezählt.

{person} walked {distance} {past}.
{person} ist {past} {distance} gelaufen.

For the recipe, you need {weight} of {food} and {spoons} of {extra}.
Für das Rezept braucht man {weight} {food} und {spoons} {extra}.

{part} participants were able to solve the task.
{part} Teilnehmer konnten die Aufgabe lösen.

{person} bought {foods} {past}.
{person} hat {past} {foods} gekauft.

At this school in {city}, you can learn {languages}.
An dieser Schule in {city} kann man {languages} lernen.
"""
