import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type ForbiddenClass, judgeAddress } from './address-policy.ts';

const strict = (ip: string) => judgeAddress(ip, { allow_private: false });
const lenient = (ip: string) => judgeAddress(ip, { allow_private: true });

/** The first and last address of each range, and other addresses inside it. */
const forbidden: [ForbiddenClass, ...string[]][] = [
  ['unspecified', '0.0.0.0', '0.255.255.255', '::'],
  ['loopback', '127.0.0.0', '127.0.0.1', '127.255.255.255', '::1'],
  ['private', '10.0.0.0', '10.255.255.255', '172.16.0.0', '172.31.255.255', '192.168.0.0', '192.168.255.255'],
  ['private', 'fc00::', 'fd00::1', 'fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
  ['shared', '100.64.0.0', '100.127.255.255'],
  ['link_local', '169.254.0.0', '169.254.255.255', 'fe80::', 'febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff', 'fe80::1%eth0'],
  [
    'cloud_metadata',
    '169.254.169.254',
    '169.254.170.2',
    '169.254.170.23',
    '100.100.100.200',
    '168.63.129.16',
    '192.0.0.192',
  ],
  ['cloud_metadata', 'fd00:ec2::254', 'fd00:ec2::23', 'fd20:ce::254', 'fd00:c1::a9fe:a9fe', 'fd00:42::42'],
  ['cloud_metadata', '::ffff:169.254.169.254%eth0', 'fd00:ec2::254%eth0'],
  [
    'documentation',
    '233.252.0.1',
    '192.0.2.0',
    '192.0.2.255',
    '198.51.100.1',
    '203.0.113.1',
    '2001:db8::1',
    '3fff::',
    '3fff:fff::',
  ],
  ['benchmarking', '198.18.0.0', '198.19.255.255', '2001:2::1'],
  ['multicast', '224.0.0.0', '239.255.255.255', 'ff00::', 'ff02::1', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
  ['broadcast', '255.255.255.255'],
  ['reserved', '240.0.0.0', '255.255.255.254', '192.0.0.1', '192.88.99.1', '2001::1', '2001:1ff::', '100::1'],
  ['reserved', '1fff::', '4000::', 'fec0::1', 'fbff::', '64:ff9b:1::7f00:1', '::1:0:0:0', '5f00::1'],
];
const allowed = [
  ...['1.0.0.0', '9.255.255.255', '11.0.0.0', '100.63.255.255', '100.128.0.0', '126.255.255.255', '128.0.0.0'],
  ...['169.253.255.255', '169.255.0.0', '172.15.255.255', '172.32.0.0', '192.167.255.255', '192.169.0.0', '192.0.1.0'],
  ...['192.0.3.0', '198.17.255.255', '198.20.0.0', '203.0.114.0', '223.255.255.255', '8.8.8.8', '168.63.129.17'],
  ...['2000::', '2001:200::', '2001:db7::', '2001:db9::', '2003::', '3ffe:ffff::', '3fff:1000::', '2606:4700::1111'],
];
const privateClasses: ForbiddenClass[] = ['loopback', 'private', 'shared'];

describe.for(forbidden)('with an address of the class %s,', ([because, ...addresses]) => {
  test.for(addresses)('refuses %s, unless it is a private address and those are allowed', (address) => {
    expect(strict(address)).toEqual({ allowed: false, because });
    expect(lenient(address)).toEqual(
      privateClasses.includes(because) ? { allowed: true } : { allowed: false, because },
    );
  });
});

test.for(allowed)('allows %s', (address) => {
  expect(strict(address)).toEqual({ allowed: true });
  expect(lenient(address)).toEqual({ allowed: true });
});

test.for(['', 'localhost', '127.1', '0x7f000001', '2130706433', '010.0.0.1', '[::1]', '1.2.3.4/8', '%eth0', '::1::'])(
  'refuses "%s", which is not an address',
  (text) => {
    expect(strict(text)).toEqual({ allowed: false, because: 'not_an_address' });
    expect(lenient(text)).toEqual({ allowed: false, because: 'not_an_address' });
  },
);

const hex = (high: number, low: number) => ((high << 8) | low).toString(16);
type Bytes = [number, number, number, number];
const embeddings: Record<string, (bytes: Bytes) => string> = {
  mapped: (b) => `::ffff:${b.join('.')}`,
  'mapped, in full': ([a, b, c, d]) => `0000:0000:0000:0000:0000:FFFF:${hex(a, b)}:${hex(c, d)}`,
  compatible: (b) => `::${b.join('.')}`,
  translated: (b) => `::ffff:0:${b.join('.')}`,
  nat64: (b) => `64:ff9b::${b.join('.')}`,
  '6to4': ([a, b, c, d]) => `2002:${hex(a, b)}:${hex(c, d)}::1`,
  '6to4, in full': ([a, b, c, d]) => `2002:${hex(a, b)}:${hex(c, d)}:1:2:3:4:5`,
};

const byte = fc.integer({ min: 0, max: 255 });
const listedIpv4 = forbidden
  .flatMap(([, ...addresses]) => addresses)
  .concat(allowed)
  .filter((address) => !address.includes(':'))
  .map((address) => address.split('.').map(Number) as Bytes);
const ipv4: fc.Arbitrary<Bytes> = fc.oneof(fc.tuple(byte, byte, byte, byte), fc.constantFrom(...listedIpv4));

test.for(Object.keys(embeddings))(
  'gives an IPv4 address the same verdict if an IPv6 address embeds it as %s',
  (name) => {
    const embed = embeddings[name];
    if (!embed) throw new Error(name);
    fc.assert(
      fc.property(ipv4, fc.boolean(), (bytes, allow_private) => {
        // `::1` is the IPv6 loopback, not an embedded IPv4 address.
        fc.pre(name !== 'compatible' || bytes.join('.') !== '0.0.0.1');
        expect(judgeAddress(embed(bytes), { allow_private })).toEqual(judgeAddress(bytes.join('.'), { allow_private }));
      }),
      { numRuns: 2_000 },
    );
  },
);

test('gives an address the same verdict in short and in full notation', () => {
  const group = fc.integer({ min: 0, max: 0xffff });
  const groups = fc.array(fc.oneof(group, fc.constant(0)), { minLength: 8, maxLength: 8 });
  fc.assert(
    fc.property(groups, (each) => {
      const full = each.map((value) => value.toString(16).padStart(4, '0')).join(':');
      const short = new URL(`http://[${full}]/`).hostname.slice(1, -1);
      expect(strict(short)).toEqual(strict(full.toUpperCase()));
    }),
    { numRuns: 2_000 },
  );
});

test('forbids no further address if private addresses are allowed', () => {
  const any = fc.oneof(fc.ipV4(), fc.ipV6());
  fc.assert(
    fc.property(any, (address) => {
      if (strict(address).allowed) expect(lenient(address)).toEqual({ allowed: true });
    }),
    { numRuns: 2_000 },
  );
});
