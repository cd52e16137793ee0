"""Days of opening and closing of depots: columns of a depots file such as `opening_date` and
`closed_on`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from forecaster.onboarding import column_names, notation
from forecaster.onboarding.tables import FileTable

_WORDS = {
    "opened": """opened opening open_date date_opened opened_on opened_at open_since open_from opening_date opening_day
        opens opens_on start_of_business eroeffnet eroeffnet_am eroeffnet_seit eroeffnung eroeffnungsdatum
        eroeffnungstag geoeffnet_seit offen_seit ouvert_le ouvert_depuis ouverture date_ouverture date_d_ouverture
        abierto_desde abierta_desde apertura fecha_apertura fecha_de_apertura aperto_dal aperto_il data_apertura
        data_di_apertura aberto_desde abertura data_abertura data_de_abertura geopend geopend_op openingsdatum
        data_otwarcia otwarty_od acilis acilis_tarihi дата_открытия 开业日期 開店日 オープン日""",
    "closed": """closed closing close_date date_closed closed_on closed_at closed_since closed_from closing_date
        closing_day closes closes_on closure_date geschlossen geschlossen_am geschlossen_seit geschlossen_ab schliessung
        schliessungsdatum schliesst_am ferme_le ferme_depuis fermeture date_fermeture date_de_fermeture cerrado_desde
        cierre fecha_cierre fecha_de_cierre chiuso_dal chiuso_il chiusura data_chiusura data_di_chiusura fechado_desde
        encerramento data_encerramento fechamento data_fechamento gesloten gesloten_op sluitingsdatum data_zamkniecia
        zamkniety_od kapanis kapanis_tarihi дата_закрытия 关闭日期 閉店日""",
}
_REASONS = {
    "opened": "the first day of business, by its name",
    "closed": "the first day out of business, by its name; empty for depots in business",
}


@dataclass(frozen=True)
class Lifespans:
    """Keys of `depots.columns` with column and reason, the form of their days, and notes on omitted
    columns."""

    columns: tuple[tuple[str, str, str], ...] = ()
    form: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns in the file."""
        return tuple(name for _, name, _ in self.columns)


def of(table: FileTable, demand_form: str | None) -> Lifespans:
    """Openings and closings in a file with one row per depot; `demand_form` is the form of days of
    the counts, which may apply here, too."""
    names = {key: _named(table.frame, key) for key in _WORDS}
    texts = {key: notation.distinct(table.frame[name]) for key, name in names.items() if name}
    texts = {key: values for key, values in texts.items() if len(values)}
    forms = {key: _forms(values, demand_form) for key, values in texts.items()}
    all_forms = [form for key in forms for form in forms[key]]
    form = max(all_forms, key=lambda form: sum(form in of_key for of_key in forms.values()), default=None)
    columns, notes = [], []
    for key, name in names.items():
        if name is None:
            continue
        if key not in texts:
            columns += [(key, name, f"{_REASONS[key]}; so far, all values are empty")] if key == "closed" else []
        elif form in forms[key] and not (form and table.settings["kind"] == "parquet"):
            columns.append((key, name, _REASONS[key]))
        else:
            notes.append(
                f"column '{name}' of {table.path.name} is not used as `depots.columns.{key}`: its "
                f"values, such as '{texts[key].iloc[0]}', are not dates in one format such as 2024-03-05"
            )
    return Lifespans(tuple(columns), form if columns else None, tuple(notes))


def _named(names: Iterable[str], key: str) -> str | None:
    synonyms = _WORDS[key].split()
    return next((name for name in names if column_names.normalized(name) in synonyms), None)


def _forms(values: Any, demand_form: str | None) -> list[str | None]:
    """Forms in which all values are days, the likeliest first: ISO 8601, that of the counts, their
    own."""
    guessed = notation.date_form(values)
    candidates = dict.fromkeys([None, demand_form, *([guessed.form, guessed.rival] if guessed else [])])
    return [form for form in candidates if notation.days(values, form).notna().all()]
