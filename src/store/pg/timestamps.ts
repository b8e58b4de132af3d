/**
 * Parses timestamps in PostgreSQL's usual form (`2026-11-15 11:41:38.123456+00`). The driver's own
 * parser took a fifth of the time of reading a batch. It still parses all other forms.
 */
import pg from 'pg';

const { TIMESTAMPTZ } = pg.types.builtins;
const parseAnyStyle: (text: string) => Date = pg.types.getTypeParser(TIMESTAMPTZ);

const plus = 43;
const space = 32;
const zero = 48;

export function readTimestamp(text: string): Date {
  const { length } = text;
  const isUsual = text.charCodeAt(10) === space && text.charCodeAt(length - 3) === plus && text.endsWith('00');
  if (!isUsual) return parseAnyStyle(text);
  const digit = (at: number) => text.charCodeAt(at) - zero;
  const two = (at: number) => digit(at) * 10 + digit(at + 1);
  // The fraction has zero to six digits; a Date keeps three.
  const fraction = (place: number) => (20 + place < length - 3 ? digit(20 + place) : 0);
  const ms = fraction(0) * 100 + fraction(1) * 10 + fraction(2);
  return new Date(Date.UTC(two(0) * 100 + two(2), two(5) - 1, two(8), two(11), two(14), two(17), ms));
}

export const types = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') =>
    oid === TIMESTAMPTZ && format !== 'binary' ? readTimestamp : pg.types.getTypeParser(oid, format as 'text'),
} as pg.CustomTypesConfig;
