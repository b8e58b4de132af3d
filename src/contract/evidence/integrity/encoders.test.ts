/** Tests the encoders of sealed and exported evidence with any text that a row can hold. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { cefHeader, cefLine, cefValue } from './cef.ts';
import { chainHead, emptyHead, entryOf, packEntries, unpackEntries } from './entries.ts';
import { jsonLine, type RowRecord, readJsonLine } from './export-record.ts';
import { readRawMembers } from './raw-members.ts';
import { encodeRow, type RowText, rowHash } from './row-hash.ts';
import { epochOf, isoOf } from './row-time.ts';
import { parameterValue, syslogLine } from './syslog.ts';

/** Text that PostgreSQL can store: without NUL and lone surrogates. */
const text = fc
  .oneof(
    fc.string({ unit: 'binary' }),
    fc.string({ unit: fc.constantFrom('|', '\\', '=', '"', ']', '[', '\n', '\r', ' ', 'ä', '\u2028', 'x') }),
  )
  .map((value) => value.replaceAll('\u0000', '').toWellFormed());
const maybe = fc.option(text, { nil: null });
/** With white space as the database writes it, and numbers that no double can hold. */
const json = fc.oneof(
  fc.json().map((value) => value.replaceAll('\u0000', '')),
  fc.constant('{"a": 1.00, "exact": 0.1000000000000000055511151231257827, "list": [1, 2, {"b": "},\\"{"}]}'),
);
const seconds = fc.integer({ min: 0, max: 253_402_300_799 });
const micro = fc.integer({ min: 0, max: 999_999 });
const epoch = fc.tuple(seconds, micro).map(([s, us]) => `${s}.${String(us).padStart(6, '0')}`);
const row: fc.Arbitrary<RowText> = fc.record({
  xid: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map(String),
  seq: fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }).map(String),
  at: epoch,
  layer: fc.constantFrom('rule', 'node', 'operator'),
  kind: text,
  summary: text,
  data: json,
  actor: fc.option(fc.constantFrom('{"id": "tok_1", "kind": "token", "name": "c|i=\\\\"}'), { nil: null }),
  node_id: maybe,
  node_instance_id: maybe,
  correlation_id: maybe,
  allocation_id: maybe,
  workflow_id: maybe,
  origin: fc.constantFrom('internal', 'node', 'person', 'unknown'),
});
const record = fc.tuple(row, fc.nat(), fc.nat()).map(
  ([each, number, checkpoint]): RowRecord => ({
    type: 'row',
    number,
    checkpoint,
    hash: rowHash(each).toString('hex'),
    row: each,
  }),
);

describe('rows', () => {
  test('have different encodings if any column but the cursor differs', () => {
    fc.assert(
      fc.property(row, row, (a, b) => {
        const other = { ...b, xid: a.xid, seq: a.seq };
        expect(encodeRow(a) === encodeRow(other)).toBe(
          Object.keys(a).every((name) => a[name as keyof RowText] === other[name as keyof RowText]),
        );
      }),
    );
  });

  test('have different encodings if two columns swap values', () => {
    fc.assert(
      fc.property(
        row,
        fc.constantFrom('node_id', 'workflow_id', 'summary'),
        fc.constantFrom('kind', 'allocation_id'),
        (each, a, b) => {
          fc.pre(each[a] !== each[b]);
          expect(encodeRow({ ...each, [a]: each[b], [b]: each[a] } as RowText)).not.toBe(encodeRow(each));
        },
      ),
    );
  });

  test('are equal after packing and unpacking', () => {
    fc.assert(
      fc.property(fc.array(row, { maxLength: 20 }), (rows) => {
        const entries = rows.map(entryOf);
        expect(unpackEntries(packEntries(entries))).toEqual(entries);
      }),
    );
    expect(unpackEntries(Buffer.alloc(57))).toBeUndefined();
  });

  test('change the head if one is missing or out of order', () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(row, { minLength: 2, maxLength: 10, selector: ({ seq }) => seq }),
        fc.nat(),
        (rows, n) => {
          const entries = rows.map(entryOf);
          const head = chainHead(emptyHead, packEntries(entries));
          const at = n % (entries.length - 1);
          const without = entries.toSpliced(at, 1);
          const swapped = entries.toSpliced(at, 2, ...entries.slice(at, at + 2).reverse());
          expect(chainHead(emptyHead, packEntries(without))).not.toBe(head);
          expect(chainHead(emptyHead, packEntries(swapped))).not.toBe(head);
        },
      ),
    );
  });
});

test('converts times to RFC 3339 and back, to the microsecond', () => {
  fc.assert(
    fc.property(epoch, (each) => {
      expect(epochOf(isoOf(each))).toBe(each);
    }),
  );
  expect(isoOf('1763399162.123456')).toBe('2025-11-17T17:06:02.123456Z');
  expect(isoOf('Infinity')).toBe('Infinity');
});

describe('JSON lines', () => {
  test('hold one record per line, with the exact text of its data', () => {
    fc.assert(
      fc.property(record, (each) => {
        const line = jsonLine(each);
        expect(line).not.toMatch(/[\r\n]/);
        expect(readJsonLine(line)).toEqual(each);
        expect(() => JSON.parse(line)).not.toThrow();
      }),
    );
  });

  test.for(['', '{', '[]', 'null', '{"a":1', '{"a":1,"a":2}', '{ "a":1}', '{"a" :1}', '{"a":1} '])(
    'are refused if a line is %s',
    (line) => {
      expect(readRawMembers(line)).toBeUndefined();
    },
  );
});

/** Parses like a SIEM: fields between unescaped pipes, then `key=value` with escapes. */
function readCef(line: string): { header: string[]; extension: Record<string, string> } {
  const fields: string[] = [''];
  let at = 0;
  for (; at < line.length && fields.length < 8; at++) {
    const character = line[at] ?? '';
    if (character === '\\') fields.push((fields.pop() ?? '') + (line[++at] ?? ''));
    else if (character === '|') fields.push('');
    else fields.push((fields.pop() ?? '') + character);
  }
  const extension: Record<string, string> = {};
  const pairs = line.slice(at).matchAll(/(?:^| )([A-Za-z0-9]+)=((?:\\.|[^\\=])*?)(?= [A-Za-z0-9]+=|$)/gs);
  for (const [, key, value] of pairs)
    extension[key ?? ''] = (value ?? '').replaceAll(/\\(.)/g, (_, c: string) =>
      c === 'n' ? '\n' : c === 'r' ? '\r' : c,
    );
  return { header: fields.slice(0, 7), extension };
}

describe('CEF', () => {
  test('is read back as it was written', () => {
    fc.assert(
      fc.property(record, (each) => {
        const line = cefLine(each, '1.0');
        expect(line).not.toMatch(/[\r\n]/);
        const { header, extension } = readCef(line);
        expect(header.slice(0, 4)).toEqual(['CEF:0', 'Slipway', 'Slipway', '1.0']);
        expect(header[4]).toBe(each.row.kind.replaceAll(/[\r\n]+/g, ' '));
        expect(extension.externalId).toBe(`${each.row.xid}-${each.row.seq}`);
        expect(extension.cs1).toBe(each.hash);
        expect(extension.cn1).toBe(String(each.number));
        expect(extension.slipwayData).toBe(each.row.data);
      }),
    );
  });
  test('escapes each part by its own rules', () => {
    expect(cefHeader('a|b\\c=d\ne')).toBe('a\\|b\\\\c=d e');
    expect(cefValue('a|b\\c=d\ne\r')).toBe('a|b\\\\c\\=d\\ne\\r');
  });
});

/** RFC 5424, as far as used here. */
const syslog =
  /^<(\d{1,3})>1 (\S+) ([\x21-\x7e]{1,255}) slipway - ([\x21-\x7e]{1,32}) \[slipway@32473((?: [a-z_]+="(?:\\["\\\]]|[^"\\\]])*")*)\] (.*)$/su;

describe('syslog', () => {
  test('is read back as it was written', () => {
    fc.assert(
      fc.property(record, (each) => {
        const line = syslogLine(each, 'slipway-1');
        expect(line).not.toMatch(/[\r\n]/);
        const [, priority, at, host, , parameters] = syslog.exec(line) ?? [];
        expect(['108', '109']).toContain(priority);
        expect(at).toBe(isoOf(each.row.at));
        expect(host).toBe('slipway-1');
        const values = Object.fromEntries(
          [...(parameters ?? '').matchAll(/ ([a-z_]+)="((?:\\["\\\]]|[^"\\\]])*)"/gsu)].map(([, name, value]) => [
            name,
            (value ?? '').replaceAll(/\\(["\\\]])/g, '$1'),
          ]),
        );
        expect(values.cursor).toBe(`${each.row.xid}-${each.row.seq}`);
        expect(values.hash).toBe(each.hash);
        expect(values.number).toBe(String(each.number));
        expect(values.node_id ?? null).toBe(each.row.node_id === null ? null : parameterRead(each.row.node_id));
      }),
    );
  });
  test('escapes the three characters and keeps to one line', () => {
    expect(parameterValue('a"b\\c]d\ne')).toBe('a\\"b\\\\c\\]d e');
  });
});

/** A value without control characters, which a line cannot hold. */
const parameterRead = (value: string): string => parameterValue(value).replaceAll(/\\(["\\\]])/g, '$1');
