"""German words for the sentence frames: people, activities, countries, goods, with their forms."""

# ruff: noqa: E501 (a row of a table is one line)

# English name | German name | English pronoun | German pronoun; used as subjects only.
PEOPLE = """
Anna|Anna|she|sie
Peter|Peter|he|er
Maria|Maria|she|sie
Thomas|Thomas|he|er
Julia|Julia|she|sie
David|David|he|er
Laura|Laura|she|sie
Martin|Martin|he|er
my sister|meine Schwester|she|sie
my brother|mein Bruder|he|er
my mother|meine Mutter|she|sie
my father|mein Vater|he|er
our neighbor|unser Nachbar|he|er
the teacher|der Lehrer|he|er
the old man|der alte Mann|he|er
the young woman|die junge Frau|she|sie
her husband|ihr Mann|he|er
his wife|seine Frau|she|sie
the new colleague|der neue Kollege|he|er
our daughter|unsere Tochter|she|sie
your son|Ihr Sohn|he|er
the doctor|die Ärztin|she|sie
"""

# English base | 3rd person | past | participle | object |
# German object | infinitive | 3rd person | separable prefix of both | participle | aux
ACTIVITIES = """
read|reads|read|read|the book|das Buch|lesen|liest||gelesen|hat
write|writes|wrote|written|a letter|einen Brief|schreiben|schreibt||geschrieben|hat
buy|buys|bought|bought|a new car|ein neues Auto|kaufen|kauft||gekauft|hat
sell|sells|sold|sold|the house|das Haus|verkaufen|verkauft||verkauft|hat
clean|cleans|cleaned|cleaned|the kitchen|die Küche|putzen|putzt||geputzt|hat
repair|repairs|repaired|repaired|the bicycle|das Fahrrad|reparieren|repariert||repariert|hat
paint|paints|painted|painted|the fence|den Zaun|streichen|streicht||gestrichen|hat
close|closes|closed|closed|the door|die Tür|machen|macht|zu|zugemacht|hat
open|opens|opened|opened|the window|das Fenster|machen|macht|auf|aufgemacht|hat
call|calls|called|called|the boss|den Chef|rufen|ruft|an|angerufen|hat
invite|invites|invited|invited|the neighbors|die Nachbarn|laden|lädt|ein|eingeladen|hat
pick up|picks up|picked up|picked up|the children|die Kinder|holen|holt|ab|abgeholt|hat
fill out|fills out|filled out|filled out|the form|das Formular|füllen|füllt|aus|ausgefüllt|hat
turn off|turns off|turned off|turned off|the light|das Licht|schalten|schaltet|aus|ausgeschaltet|hat
tidy up|tidies up|tidied up|tidied up|the room|das Zimmer|räumen|räumt|auf|aufgeräumt|hat
prepare|prepares|prepared|prepared|dinner|das Abendessen|bereiten|bereitet|vor|vorbereitet|hat
visit|visits|visited|visited|the museum|das Museum|besuchen|besucht||besucht|hat
answer|answers|answered|answered|the question|die Frage|beantworten|beantwortet||beantwortet|hat
look for|looks for|looked for|looked for|the key|den Schlüssel|suchen|sucht||gesucht|hat
drink|drinks|drank|drunk|a cup of tea|eine Tasse Tee|trinken|trinkt||getrunken|hat
bake|bakes|baked|baked|a cake|einen Kuchen|backen|backt||gebacken|hat
pay|pays|paid|paid|the bill|die Rechnung|bezahlen|bezahlt||bezahlt|hat
translate|translates|translated|translated|the text|den Text|übersetzen|übersetzt||übersetzt|hat
go|goes|went|gone|home|nach Hause|gehen|geht||gegangen|ist
drive|drives|drove|driven|to the mountains|in die Berge|fahren|fährt||gefahren|ist
stay|stays|stayed|stayed|in bed|im Bett|bleiben|bleibt||geblieben|ist
feed|feeds|fed|fed|the dog|den Hund|füttern|füttert||gefüttert|hat
wash|washes|washed|washed|the car|das Auto|waschen|wäscht||gewaschen|hat
send off|sends off|sent off|sent off|the package|das Paket|schicken|schickt|ab|abgeschickt|hat
water|waters|watered|watered|the flowers|die Blumen|gießen|gießt||gegossen|hat
sign|signs|signed|signed|the contract|den Vertrag|unterschreiben|unterschreibt||unterschrieben|hat
cancel|cancels|canceled|canceled|the appointment|den Termin|sagen|sagt|ab|abgesagt|hat
bring back|brings back|brought back|brought back|the books|die Bücher|bringen|bringt|zurück|zurückgebracht|hat
practice|practices|practiced|practiced|the piano|Klavier|üben|übt||geübt|hat
"""

# Countries with an article: English | in | to | out of | from.
ARTICLE_COUNTRIES = """
Switzerland|in der Schweiz|in die Schweiz|aus der Schweiz|von der Schweiz
Türkiye|in der Türkei|in die Türkei|aus der Türkei|von der Türkei
Ukraine|in der Ukraine|in die Ukraine|aus der Ukraine|von der Ukraine
Slovakia|in der Slowakei|in die Slowakei|aus der Slowakei|von der Slowakei
Mongolia|in der Mongolei|in die Mongolei|aus der Mongolei|von der Mongolei
the Netherlands|in den Niederlanden|in die Niederlande|aus den Niederlanden|von den Niederlanden
the Philippines|auf den Philippinen|auf die Philippinen|von den Philippinen|von den Philippinen
the United States|in den Vereinigten Staaten|in die Vereinigten Staaten|aus den Vereinigten Staaten|von den Vereinigten Staaten
the United Kingdom|im Vereinigten Königreich|ins Vereinigte Königreich|aus dem Vereinigten Königreich|vom Vereinigten Königreich
Lebanon|im Libanon|in den Libanon|aus dem Libanon|vom Libanon
Yemen|im Jemen|in den Jemen|aus dem Jemen|vom Jemen
"""

# Goods that can be counted, in the plural (nominative and accusative are alike).
GOODS = """apples|Äpfel
books|Bücher
chairs|Stühle
bottles|Flaschen
tickets|Karten
pencils|Bleistifte
eggs|Eier
candles|Kerzen
plates|Teller
flowers|Blumen
stamps|Briefmarken
oranges|Orangen
shirts|Hemden
tomatoes|Tomaten
cups|Tassen
lamps|Lampen
keys|Schlüssel
photos|Fotos
onions|Zwiebeln
carrots|Karotten
potatoes|Kartoffeln
envelopes|Umschläge"""

# Foodstuffs in lists and recipes, without an article.
FOODS = """bread|Brot
butter|Butter
cheese|Käse
milk|Milch
sugar|Zucker
flour|Mehl
salt|Salz
rice|Reis
honey|Honig
tea|Tee
coffee|Kaffee
fish|Fisch
soup|Suppe
olive oil|Olivenöl
chocolate|Schokolade
water|Wasser"""

# What has a price, as the subject of a sentence, and the German pronoun in the accusative.
THINGS = """the bicycle|das Fahrrad|es
the ticket|die Fahrkarte|sie
the table|der Tisch|ihn
the coat|der Mantel|ihn
the camera|die Kamera|sie
the hotel room|das Hotelzimmer|es
the dress|das Kleid|es
the watch|die Uhr|sie
the computer|der Computer|ihn
the flight|der Flug|ihn
the guitar|die Gitarre|sie
the lamp|die Lampe|sie"""

# Adverbs of the future, and of the past, that stand before the object in German.
FUTURE = """tomorrow|morgen
next week|nächste Woche
tonight|heute Abend
next year|nächstes Jahr
this afternoon|heute Nachmittag
the day after tomorrow|übermorgen
next weekend|nächstes Wochenende
tomorrow morning|morgen früh"""
PAST = """yesterday|gestern
last week|letzte Woche
last night|gestern Abend
last year|letztes Jahr
the day before yesterday|vorgestern
this morning|heute Morgen
last weekend|letztes Wochenende
recently|vor Kurzem"""
