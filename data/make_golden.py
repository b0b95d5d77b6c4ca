#!/usr/bin/env python3
"""Makes golden results, and a month's input, from a year of flights.

    python3 data/make_golden.py YEAR.csv.gz --month 2013-01    the month: its input and its golden files
    python3 data/make_golden.py YEAR.csv.gz --out DIRECTORY    the whole file's golden files

It shares nothing with the project, not even the language: two programs that agree here agree by being right.
Standard library only. data/README.md says what each column means.
"""

import argparse
import csv
import gzip
import io
from pathlib import Path

HERE = Path(__file__).resolve().parent
MISSING = "NA"


def read_flights(path, month):
    """The header line and the lines whose UTC `time_hour` lies in the month (all of them without a month), untouched."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="") as lines:
        header = next(lines)
        # time_hour is the last column and no field is quoted; `columns` refuses a file where this is not so.
        hours = ((line, line.rstrip("\r\n").rpartition(",")[2]) for line in lines)
        return header, [line for line, hour in hours if month is None or hour.startswith(month + "-")]


def columns(header, lines):
    """Each flight as a dictionary, after a check that the cheap cut of `read_flights` was right."""
    reader = csv.DictReader(io.StringIO(header + "".join(lines)))
    if reader.fieldnames[-1] != "time_hour":
        raise SystemExit(f"expected time_hour as the last column, found {reader.fieldnames[-1]}")
    for flight in reader:
        if None in flight or None in flight.values():
            raise SystemExit(f"line {reader.line_num}: not the number of columns that the header has")
        yield flight


def per_carrier(flights, names):
    """One row a carrier: name, flights, cancelled (no dep_time), arrivals (has arr_delay), sum of arr_delay."""
    totals = {}
    for flight in flights:
        row = totals.setdefault(flight["carrier"], [0, 0, 0, 0])
        row[0] += 1
        row[1] += flight["dep_time"] == MISSING
        if flight["arr_delay"] != MISSING:
            row[2] += 1
            row[3] += int(flight["arr_delay"])
    yield ["carrier", "name", "flights", "cancelled", "arrivals", "arr_delay_minutes_sum"]
    for carrier in sorted(totals):
        yield [carrier, names[carrier], *totals[carrier]]


def hourly_by_origin(flights):
    """One row an origin and scheduled hour: scheduled, departed (has dep_delay), sum and max of dep_delay."""
    windows = {}
    for flight in flights:
        delays = windows.setdefault((flight["origin"], flight["time_hour"]), [])
        delays.append(None if flight["dep_delay"] == MISSING else int(flight["dep_delay"]))
    yield ["origin", "window_start", "scheduled", "departed", "dep_delay_minutes_sum", "dep_delay_minutes_max"]
    for origin, hour in sorted(windows):
        delays = windows[origin, hour]
        known = [delay for delay in delays if delay is not None]
        # Nothing departed: the sum of nothing is 0, but there is no greatest of nothing.
        yield [origin, hour, len(delays), len(known), sum(known), max(known, default="")]


def write_csv(path, rows):
    with open(path, "w", encoding="utf-8", newline="") as out:
        csv.writer(out, lineterminator="\n").writerows(rows)
    print(path)


def write_gzip(path, text):
    # No name and no time in the gzip header: the same input gives the same file.
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as out:
        out.write(text.encode("utf-8"))
    print(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("flights", type=Path, help="CSV of flights, plain or .gz")
    parser.add_argument("--month", metavar="YYYY-MM", help="only the flights whose UTC time_hour lies in this month")
    parser.add_argument("--airlines", type=Path, default=HERE / "airlines.csv", help="carrier,name (default: beside this script)")
    parser.add_argument("--out", type=Path, default=HERE, help="where the files go (default: beside this script)")
    options = parser.parse_args()

    with open(options.airlines, encoding="utf-8", newline="") as lines:
        names = {row["carrier"]: row["name"] for row in csv.DictReader(lines)}
    header, lines = read_flights(options.flights, options.month)
    flights = list(columns(header, lines))
    if not flights:
        raise SystemExit(f"no flight of {options.month or 'any month'} in {options.flights}")

    options.out.mkdir(parents=True, exist_ok=True)
    suffix = f"-{options.month}" if options.month else ""
    if options.month:
        write_gzip(options.out / f"flights{suffix}.csv.gz", header + "".join(lines))
    write_csv(options.out / f"golden_per_carrier{suffix}.csv", per_carrier(flights, names))
    write_csv(options.out / f"golden_hourly_by_origin{suffix}.csv", hourly_by_origin(flights))


if __name__ == "__main__":
    main()
