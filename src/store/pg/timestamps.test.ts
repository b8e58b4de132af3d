import fc from 'fast-check';
import pg from 'pg';
import { expect, test } from 'vitest';
import { readTimestamp } from './timestamps.ts';

const parseAnyStyle: (text: string) => Date = pg.types.getTypeParser(pg.types.builtins.TIMESTAMPTZ);

/** Formats like PostgreSQL: no trailing zeros in the fraction, and no dot without a fraction. */
const format = (date: Date, micros: number, zone: string) => {
  const fraction = `${String(date.getUTCMilliseconds()).padStart(3, '0')}${String(micros).padStart(3, '0')}`.replace(
    /0+$/,
    '',
  );
  const [day, time = ''] = date.toISOString().split('T');
  return `${day} ${time.slice(0, 8)}${fraction && `.${fraction}`}${zone}`;
};

test('returns the same time as the driver, in several time zones', () => {
  const years = { min: new Date('1970-01-01T00:00:00Z'), max: new Date('9999-12-31T00:00:00Z'), noInvalidDate: true };
  fc.assert(
    fc.property(
      fc.date(years),
      fc.nat(999),
      fc.constantFrom('+00', '+02', '-05', '+05:30', '-03:30', '+10'),
      (date, micros, zone) => {
        const text = format(date, micros, zone);
        expect(readTimestamp(text).getTime(), text).toBe(parseAnyStyle(text).getTime());
      },
    ),
  );
});

test.each(['infinity', '0044-03-15 12:00:00+00 BC', '12026-11-15 11:41:38+00', '2026-11-15 11:41:38.5+00:53:28'])(
  'leaves %s to the driver',
  (text) => {
    expect(readTimestamp(text)).toEqual(parseAnyStyle(text));
  },
);
