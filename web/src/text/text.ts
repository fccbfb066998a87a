// The texts of the portal in the person's language. Every text stands in a
// catalogue; a key that a catalogue lacks doesn't compile.

import { en } from "./en.js";
import { es } from "./es.js";

export type Key = keyof typeof en;
export type Catalogue = Readonly<Record<Key, string>>;
export type Language = "en" | "es";

/** Keys that have a form for one and a form for the others. */
export type Plural = { [K in Key]: K extends `${infer Stem}.one` ? Stem : never }[Key];

export type Values = Readonly<Record<string, string | number>>;

export const languages: readonly Language[] = ["en", "es"];
const catalogues: Readonly<Record<Language, Catalogue>> = { en, es };
const stored = "chaperone.language";

let current: Language = preferred();

function preferred(): Language {
  const chosen = read(stored);
  if (isLanguage(chosen)) return chosen;
  for (const wanted of navigator.languages) {
    const short = wanted.slice(0, 2).toLowerCase();
    if (isLanguage(short)) return short;
  }
  return "en";
}

function isLanguage(word: string | null): word is Language {
  return word !== null && (languages as readonly string[]).includes(word);
}

function read(name: string): string | null {
  try {
    return localStorage.getItem(name);
  } catch {
    return null; // storage is switched off: the browser's own preference stands
  }
}

export function language(): Language {
  return current;
}

const switched = new Set<() => void>();

/** Registers who has to say everything anew in another language. */
export function onLanguage(listener: () => void): void {
  switched.add(listener);
}

/** Switches the language and keeps the choice in this browser. */
export function setLanguage(to: Language): void {
  current = to;
  localStorage.setItem(stored, to);
  document.documentElement.lang = to;
  for (const listener of switched) listener();
}

/** Answers a text, its {names} replaced. Values are shown as they are: mark foreign text first. */
export function text(key: Key, values: Values = {}): string {
  return catalogues[current][key].replace(/\{([a-z_]+)\}/g, (all, name: string) => {
    const value = values[name];
    if (value === undefined) return all;
    return typeof value === "number" ? number(value) : value;
  });
}

/** Answers the form of a text for n things; the text calls them {n}. */
export function count(stem: Plural, n: number, values: Values = {}): string {
  const form = new Intl.PluralRules(current).select(n) === "one" ? "one" : "other";
  return text(`${stem}.${form}` as Key, { n, ...values });
}

/** Answers a text of a family by a word from outside, or the family's general one. */
export function textOf(family: string, word: string, otherwise: Key, values: Values = {}): string {
  const key = `${family}.${word}`;
  return text(Object.hasOwn(en, key) ? (key as Key) : otherwise, values);
}

export function has(key: string): key is Key {
  return Object.hasOwn(en, key);
}

export function number(n: number): string {
  return new Intl.NumberFormat(current).format(n);
}

/** Bytes in the unit a person would use. */
export function bytes(n: number): string {
  const units = ["byte", "kilobyte", "megabyte", "gigabyte"] as const;
  let at = 0;
  while (n >= 1024 && at < units.length - 1) {
    n /= 1024;
    at++;
  }
  return new Intl.NumberFormat(current, {
    style: "unit", unit: units[at] ?? "byte", unitDisplay: at === 0 ? "long" : "short", maximumFractionDigits: at === 0 ? 0 : 1,
  }).format(n);
}

/** So many days, in words. */
export function days(n: number): string {
  return new Intl.NumberFormat(current, { style: "unit", unit: "day", unitDisplay: "long" }).format(n);
}

/** Seconds as minutes and seconds. */
export function clock(seconds: number): string {
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

/** A moment in the person's own time zone. */
export function moment(ms: number): string {
  return new Intl.DateTimeFormat(current, { dateStyle: "medium", timeStyle: "short" }).format(ms);
}

/** How long ago, or until, in one unit. */
export function ago(ms: number, now = Date.now()): string {
  const seconds = Math.round((ms - now) / 1000);
  const format = new Intl.RelativeTimeFormat(current, { numeric: "auto" });
  for (const [unit, size] of [["day", 86_400], ["hour", 3600], ["minute", 60]] as const) {
    if (Math.abs(seconds) >= size) return format.format(Math.trunc(seconds / size), unit);
  }
  return format.format(seconds, "second");
}
