/**
 * Generates valid and invalid values from a schema. The contract's schemas are plain JSON Schema.
 */
import fc from 'fast-check';
import type { TSchema } from 'typebox';
import { Value } from 'typebox/value';

interface Shape {
  type?: string;
  enum?: unknown[];
  const?: unknown;
  anyOf?: Shape[];
  properties?: Record<string, Shape>;
  required?: string[];
  patternProperties?: Record<string, Shape>;
  items?: Shape;
  minItems?: number;
  maxItems?: number;
  minimum?: number;
  exclusiveMinimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  format?: string;
}

type Values = fc.Arbitrary<unknown>;

/** A number that JSON can express and JavaScript cannot hold; written out by `asJson`. */
const hugeNumber = '@@1e999@@';
export const asJson = (value: unknown) => JSON.stringify(value)?.replaceAll(`"${hugeNumber}"`, '1e999') ?? '';

export const hostileTexts = [
  "'; drop table nodes; --",
  "' or '1'='1",
  '../../../etc/passwd',
  '..',
  '%2e%2e%2f',
  'C:\\windows',
  '{{7*7}}',
  '<script>alert(1)</script>',
  '$(reboot)',
  '',
  ' ',
  'UPPER case',
  'é',
  '𝒳',
  '\u202e',
  'a\nb',
  '-rf',
  '_',
  'NaN',
];
/** Strings that PostgreSQL can store neither as text nor as jsonb. */
const unstorableTexts = ['\0', 'a\0b', '\ud800', 'x\udfffy'];
const unstorable = fc.constantFrom(...unstorableTexts);

const deepValues = fc.constantFrom(33, 200, 1_000).map((depth) => {
  let value: unknown = 1;
  for (let level = 0; level < depth; level++) value = level % 2 ? [value] : { a: value };
  return value;
});

const wrongTypes: Values = fc.constantFrom(
  null,
  true,
  [],
  {},
  [{}],
  0,
  -1,
  1.5,
  'text',
  hugeNumber,
  { constructor: { a: 1 } },
  [null],
);

const numberIn = (shape: Shape): Values => {
  const low = shape.minimum ?? shape.exclusiveMinimum ?? 0;
  const high = Math.min(shape.maximum ?? 1000, low + 1000);
  if (shape.type === 'integer') return fc.integer({ min: Math.ceil(low), max: Math.floor(high) });
  return fc.double({ min: low, max: high, noNaN: true, minExcluded: shape.exclusiveMinimum !== undefined });
};

const arbitrariesByPattern = new Map<string, fc.Arbitrary<string>>();
/** Cached per pattern, because parsing a pattern is slow and the contract repeats a few of them. */
function textsMatching(pattern: string, size?: '-1'): fc.Arbitrary<string> {
  const key = `${size} ${pattern}`;
  const arbitrary = arbitrariesByPattern.get(key) ?? fc.stringMatching(new RegExp(pattern), size && { size });
  arbitrariesByPattern.set(key, arbitrary);
  return arbitrary;
}

function textIn(shape: Shape): Values {
  if (shape.format === 'date-time') return fc.constant('2030-01-02T03:04:05Z');
  if (shape.pattern) return textsMatching(shape.pattern, '-1');
  return fc.string({ minLength: shape.minLength ?? 0, maxLength: Math.min(shape.maxLength ?? 20, 20) });
}

function objectIn(shape: Shape): Values {
  const dictionaries = Object.entries(shape.patternProperties ?? {}).map(([pattern, each]) =>
    fc.dictionary(textsMatching(pattern), validValues(each), { maxKeys: 2 }),
  );
  if (!shape.properties) return dictionaries[0] ?? fc.constant({});
  const fields = Object.fromEntries(Object.entries(shape.properties).map(([key, each]) => [key, validValues(each)]));
  return fc.record(fields, { requiredKeys: shape.required ?? [] });
}

export function validValues(shape: Shape): Values {
  if (shape.enum) return fc.constantFrom(...shape.enum);
  if ('const' in shape) return fc.constant(shape.const);
  if (shape.anyOf) return fc.oneof(...shape.anyOf.map(validValues));
  if (shape.type === 'string') return textIn(shape);
  if (shape.type === 'number' || shape.type === 'integer') return numberIn(shape);
  if (shape.type === 'boolean') return fc.boolean();
  if (shape.type === 'null') return fc.constant(null);
  if (shape.type === 'array')
    return fc.array(validValues(shape.items ?? {}), {
      minLength: shape.minItems ?? 0,
      maxLength: (shape.minItems ?? 0) + 1,
    });
  return shape.type === 'object' ? objectIn(shape) : fc.constant('anything');
}

const strangeKeys = ['unknown', 'constructor', '__proto__', 'toString', "'; drop table nodes; --", '\0', '\ud800', ''];

/** Sets a field without touching a prototype. */
const withField = (base: unknown, key: string, value: unknown) =>
  Object.fromEntries([...Object.entries(base as object).filter(([name]) => name !== key), [key, value]]);

function mostlyInvalidObject(shape: Shape): Values {
  const base = objectIn(shape);
  const fields = Object.entries(shape.properties ?? {});
  const requiredKeys = shape.required ?? [];
  return fc.oneof(
    wrongTypes,
    fc
      .tuple(base, fc.constantFrom(...strangeKeys), wrongTypes)
      .map(([value, key, invalid]) => withField(value, key, invalid)),
    ...fields.map(([key, each]) =>
      fc.tuple(base, mostlyInvalid(each)).map(([value, invalid]) => withField(value, key, invalid)),
    ),
    ...requiredKeys.map((key) =>
      base.map((value) => Object.fromEntries(Object.entries(value as object).filter(([name]) => name !== key))),
    ),
    ...Object.values(shape.patternProperties ?? {}).map((each) =>
      mostlyInvalid(each).map((invalid) => ({ fine: invalid })),
    ),
  );
}

function mostlyInvalidText(shape: Shape): Values {
  const tooLong = 'a'.repeat((shape.maxLength ?? 100_000) + 1);
  const times = [
    'yesterday',
    '2030-02-30T00:00:00Z',
    '0000-01-01T00:00:00Z',
    '2030-01-01T00:00:00+23:59',
    '2030-01-01',
  ];
  return fc.oneof(wrongTypes, unstorable, fc.constantFrom(...hostileTexts), fc.constantFrom(tooLong, ...times));
}

const numbers = [-1, -0.5, 1.5, 1e300, -1e300, Number.MAX_SAFE_INTEGER, 2 ** 63, 5e-324, hugeNumber, '1', 'NaN', null];

/** Most of these values are invalid. `invalidValuesFor` removes the valid ones. */
function mostlyInvalid(shape: Shape): Values {
  if (shape.anyOf) return fc.oneof(...shape.anyOf.map(mostlyInvalid));
  if (shape.type === 'string') return mostlyInvalidText(shape);
  if (shape.type === 'number' || shape.type === 'integer') return fc.oneof(wrongTypes, fc.constantFrom(...numbers));
  if (shape.type === 'array')
    return fc.oneof(
      wrongTypes,
      mostlyInvalid(shape.items ?? {}).map((each) => [each]),
      fc.constant(Array.from({ length: (shape.maxItems ?? 2_000) + 1 }, () => 1)),
    );
  if (shape.type === 'object')
    return fc.oneof({ arbitrary: mostlyInvalidObject(shape), weight: 8 }, { arbitrary: deepValues, weight: 1 });
  return fc.oneof(wrongTypes, unstorable, deepValues);
}

function isUnstorable(value: unknown, depth = 0): boolean {
  if (typeof value === 'string') return unstorableTexts.some((each) => value === each);
  if (value === null || typeof value !== 'object') return value === hugeNumber;
  if (depth > 32) return true;
  return Object.entries(value).some(
    ([key, item]) => key === '__proto__' || unstorableTexts.includes(key) || isUnstorable(item, depth + 1),
  );
}

/** Values that the server must refuse: they do not match `schema`, or cannot be stored. */
export const invalidValuesFor = (schema: TSchema): Values =>
  mostlyInvalid(schema as Shape).filter(
    (value) => isUnstorable(value) || !Value.Check(schema, JSON.parse(asJson(value))),
  );

export const propertiesOf = (schema: TSchema | undefined): [string, Shape][] =>
  Object.entries((schema as Shape | undefined)?.properties ?? {});

/**
 * Invalid texts for a parameter in an address. They are percent-encoded already, or their encoding
 * is invalid.
 */
export function invalidParameter(shape: Shape): fc.Arbitrary<string> {
  if (shape.type === 'integer' || shape.type === 'number')
    return fc.constantFrom('abc', '-1', '1e99', 'NaN', 'Infinity', '0x10', '%00', '1%20or%201=1', '%ZZ', '[]');
  if (shape.type === 'boolean') return fc.constantFrom('maybe', '2', '%00', 'null', '%ZZ');
  if (shape.enum) return fc.constantFrom('nope', '%00', "'", '%F0%9F%92%A5', '__proto__', 'constructor');
  const long = 'a'.repeat((shape.maxLength ?? 512) + 1);
  if (!shape.pattern) return fc.constantFrom('%00', 'a%00b', long);
  const pattern = new RegExp(shape.pattern);
  const invalidTexts = [...hostileTexts, ...unstorableTexts.slice(0, 2), long].filter(
    (text) => text !== '' && !(pattern.test(text) && text !== long),
  );
  return fc.constantFrom(...invalidTexts.map(encodeURIComponent), '%C0%AF', '%FF');
}
