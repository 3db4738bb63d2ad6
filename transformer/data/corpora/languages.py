"""The languages that models name, and how they are written, whatever code a language is given by.

Its scripts tell which letters are its own, whether it puts spaces between words, and which
tokenisation BLEU needs.
"""

from collections.abc import Callable
from functools import cache, partial

import regex

# The languages of M2M100, NLLB-200 and mBART-50, in the order of their ids.
M2M100 = """
    af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha
    he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my
    ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz
    vi wo xh yi yo zh zu
"""
WMT21 = "en ha is ja cs ru zh de"
MBART50 = """
    ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT
    lv_LV my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN af_ZA az_AZ bn_IN fa_IR he_IL
    hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN te_IN
    th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI
"""
NLLB = """
    ace_Arab ace_Latn acm_Arab acq_Arab aeb_Arab afr_Latn ajp_Arab aka_Latn amh_Ethi apc_Arab
    arb_Arab ars_Arab ary_Arab arz_Arab asm_Beng ast_Latn awa_Deva ayr_Latn azb_Arab azj_Latn
    bak_Cyrl bam_Latn ban_Latn bel_Cyrl bem_Latn ben_Beng bho_Deva bjn_Arab bjn_Latn bod_Tibt
    bos_Latn bug_Latn bul_Cyrl cat_Latn ceb_Latn ces_Latn cjk_Latn ckb_Arab crh_Latn cym_Latn
    dan_Latn deu_Latn dik_Latn dyu_Latn dzo_Tibt ell_Grek eng_Latn epo_Latn est_Latn eus_Latn
    ewe_Latn fao_Latn pes_Arab fij_Latn fin_Latn fon_Latn fra_Latn fur_Latn fuv_Latn gla_Latn
    gle_Latn glg_Latn grn_Latn guj_Gujr hat_Latn hau_Latn heb_Hebr hin_Deva hne_Deva hrv_Latn
    hun_Latn hye_Armn ibo_Latn ilo_Latn ind_Latn isl_Latn ita_Latn jav_Latn jpn_Jpan kab_Latn
    kac_Latn kam_Latn kan_Knda kas_Arab kas_Deva kat_Geor knc_Arab knc_Latn kaz_Cyrl kbp_Latn
    kea_Latn khm_Khmr kik_Latn kin_Latn kir_Cyrl kmb_Latn kon_Latn kor_Hang kmr_Latn lao_Laoo
    lvs_Latn lij_Latn lim_Latn lin_Latn lit_Latn lmo_Latn ltg_Latn ltz_Latn lua_Latn lug_Latn
    luo_Latn lus_Latn mag_Deva mai_Deva mal_Mlym mar_Deva min_Latn mkd_Cyrl plt_Latn mlt_Latn
    mni_Beng khk_Cyrl mos_Latn mri_Latn zsm_Latn mya_Mymr nld_Latn nno_Latn nob_Latn npi_Deva
    nso_Latn nus_Latn nya_Latn oci_Latn gaz_Latn ory_Orya pag_Latn pan_Guru pap_Latn pol_Latn
    por_Latn prs_Arab pbt_Arab quy_Latn ron_Latn run_Latn rus_Cyrl sag_Latn san_Deva sat_Beng
    scn_Latn shn_Mymr sin_Sinh slk_Latn slv_Latn smo_Latn sna_Latn snd_Arab som_Latn sot_Latn
    spa_Latn als_Latn srd_Latn srp_Cyrl ssw_Latn sun_Latn swe_Latn swh_Latn szl_Latn tam_Taml
    tat_Cyrl tel_Telu tgk_Cyrl tgl_Latn tha_Thai tir_Ethi taq_Latn taq_Tfng tpi_Latn tsn_Latn
    tso_Latn tuk_Latn tum_Latn tur_Latn twi_Latn tzm_Tfng uig_Arab ukr_Cyrl umb_Latn urd_Arab
    uzn_Latn vec_Latn vie_Latn war_Latn wol_Latn xho_Latn ydd_Hebr yor_Latn yue_Hant zho_Hans
    zho_Hant zul_Latn
"""
# NLLB's codes are a language of ISO 639-3 and its script of ISO 15924; these are missing there.
OTHERS = "bre_Latn che_Cyrl chv_Cyrl fry_Latn lat_Latn oss_Cyrl sah_Cyrl srp_Latn"
# Codes of ISO 639-1, then codes of macrolanguages, each with the ISO 639-3 code that NLLB uses.
CODES = """
    af=afr am=amh ar=arb as=asm az=azj ba=bak be=bel bg=bul bn=ben bo=bod br=bre bs=bos ca=cat
    ce=che cs=ces cv=chv cy=cym da=dan de=deu dz=dzo el=ell en=eng eo=epo es=spa et=est eu=eus
    fa=pes ff=fuv fi=fin fil=tgl fo=fao fr=fra fy=fry ga=gle gd=gla gl=glg gu=guj ha=hau he=heb
    hi=hin hr=hrv ht=hat hu=hun hy=hye id=ind ig=ibo is=isl it=ita iw=heb ja=jpn jv=jav ka=kat
    kk=kaz km=khm kn=kan ko=kor ku=kmr ky=kir la=lat lb=ltz lg=lug ln=lin lo=lao lt=lit lv=lvs
    mg=plt mi=mri mk=mkd ml=mal mn=khk mr=mar ms=zsm mt=mlt my=mya nb=nob ne=npi nl=nld nn=nno
    no=nob ns=nso ny=nya oc=oci om=gaz or=ory os=oss pa=pan pl=pol ps=pbt pt=por ro=ron ru=rus
    rw=kin sa=san sd=snd si=sin sk=slk sl=slv sm=smo sn=sna so=som sq=als sr=srp ss=ssw st=sot
    su=sun sv=swe sw=swh ta=tam te=tel tg=tgk th=tha ti=tir tk=tuk tl=tgl tn=tsn tr=tur ts=tso
    tt=tat ug=uig uk=ukr ur=urd uz=uzn vi=vie wo=wol xh=xho yi=ydd yo=yor zh=zho zu=zul ara=arb
    aze=azj cmn=zho fas=pes kur=kmr lav=lvs mlg=plt mon=khk msa=zsm nep=npi nor=nob ori=ory orm=gaz
    pus=pbt sqi=als swa=swh uzb=uzn yid=ydd
"""
ISO_639_3: dict[str, str] = dict(regex.findall(r"(\w+)=(\w+)", CODES))
STYLES = {  # scripts of ISO 15924 that are several of Unicode's, or a style of one
    "Hans": ["Han", "Bopomofo"],
    "Hant": ["Han", "Bopomofo"],
    "Jpan": ["Han", "Hiragana", "Katakana"],
    "Kore": ["Hangul", "Han"],
    "Hang": ["Hangul", "Han"],  # NLLB names Korean kor_Hang
}
UNSPACED = {"Hans", "Hant", "Hani", "Jpan", "Hira", "Kana", "Thai", "Laoo", "Khmr", "Mymr", "Tibt"}


@cache
def scripts_of(code: str) -> tuple[str, ...]:
    """Returns the scripts of ISO 15924 that a language is written in, () if they are unknown.

    A script in the code counts before the language: pt_BR is Portuguese, but uz_Cyrl Cyrillic.

    >>> scripts_of("ja_XX"), scripts_of("zho_Hans"), scripts_of("zh-TW"), scripts_of("xx")
    (('Jpan',), ('Hans',), ('Hans', 'Hant'), ())
    """
    name, *subtags = code.lower().replace("-", "_").split("_")
    if given := tuple(subtag.title() for subtag in subtags if _is_script(subtag.title())):
        return given
    pairs = (pair.split("_") for pair in f"{NLLB} {OTHERS}".split())
    return tuple(script for code, script in pairs if code == ISO_639_3.get(name, name))


def has_spaces(code: str) -> bool:
    """Whether a language puts spaces between words, as all do of which nothing is known."""
    return not UNSPACED.intersection(scripts_of(code))


def _is_script(name: str) -> bool:
    """Whether a part of a code is a script, as Latn, and no region, as BR."""
    try:
        return name in STYLES or (len(name) == 4 and bool(regex.compile(rf"\p{{Script={name}}}")))
    except regex.error:
        return False


def make_is_wrong(language: str) -> Callable[[str], bool]:
    """Returns the function that says whether most letters of a sentence are of other scripts.

    It can be pickled. Letters that belong to no script, as ー and µ, do not count. Raises
    ValueError if nothing is known of how the language is written.
    """
    if not (scripts := scripts_of(language)):
        raise ValueError(
            f"data.drop_wrong_script does not know how the language '{language}' is written: set "
            f"it to False, or name the language, and its files, with its script, as "
            f"{language}_Latn."
        )
    names = (name for script in scripts for name in STYLES.get(script, [script]))
    own_scripts = "".join(rf"\p{{Script={name}}}" for name in names)
    no_script = r"\p{Script=Common}\p{Script=Inherited}"
    right = regex.compile(rf"[\p{{L}}&&[{own_scripts}]]", regex.V1)
    wrong = regex.compile(rf"[\p{{L}}--[{own_scripts}{no_script}]]", regex.V1)
    return partial(_is_wrong, right, wrong)


def _is_wrong(right: regex.Pattern[str], wrong: regex.Pattern[str], sentence: str) -> bool:
    num_wrong = len(wrong.findall(sentence))
    return num_wrong > 0 and len(right.findall(sentence)) < num_wrong
