/**
 * Decides which addresses the server may probe. Nodes name their own address, so without this table
 * anyone who can register could aim the control plane at itself, its neighbours or a cloud metadata
 * service (SSRF).
 */
import { BlockList, isIP } from 'node:net';

interface AddressClass {
  name: string;
  passes: 'if_private_allowed' | 'never';
  ipv4: string[];
  ipv6: string[];
}

/**
 * The first class that contains an address decides, so narrow ranges come before the wide ones
 * around them.
 */
const classes = [
  {
    name: 'cloud_metadata',
    passes: 'never',
    ipv4: [
      '169.254.169.254/32',
      '169.254.170.2/32',
      '169.254.170.23/32',
      '100.100.100.200/32',
      '168.63.129.16/32',
      '192.0.0.192/32',
    ],
    ipv6: ['fd00:ec2::/32', 'fd20:ce::254/128', 'fd00:c1::a9fe:a9fe/128', 'fd00:42::42/128'],
  },
  { name: 'unspecified', passes: 'never', ipv4: ['0.0.0.0/8'], ipv6: ['::/128'] },
  { name: 'loopback', passes: 'if_private_allowed', ipv4: ['127.0.0.0/8'], ipv6: ['::1/128'] },
  {
    name: 'private',
    passes: 'if_private_allowed',
    ipv4: ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16'],
    ipv6: ['fc00::/7'],
  },
  { name: 'shared', passes: 'if_private_allowed', ipv4: ['100.64.0.0/10'], ipv6: [] },
  { name: 'link_local', passes: 'never', ipv4: ['169.254.0.0/16'], ipv6: ['fe80::/10'] },
  {
    name: 'documentation',
    passes: 'never',
    ipv4: ['192.0.2.0/24', '198.51.100.0/24', '203.0.113.0/24', '233.252.0.0/24'],
    ipv6: ['2001:db8::/32', '3fff::/20'],
  },
  { name: 'benchmarking', passes: 'never', ipv4: ['198.18.0.0/15'], ipv6: ['2001:2::/48'] },
  { name: 'multicast', passes: 'never', ipv4: ['224.0.0.0/4'], ipv6: ['ff00::/8'] },
  { name: 'broadcast', passes: 'never', ipv4: ['255.255.255.255/32'], ipv6: [] },
  {
    name: 'reserved',
    passes: 'never',
    ipv4: ['192.0.0.0/24', '192.88.99.0/24', '240.0.0.0/4'],
    // 2001::/23 contains Teredo, which hides an IPv4 address behind an XOR. Everything outside
    // 2000::/3 is unassigned.
    ipv6: ['2001::/23', '::/3', '4000::/2', '8000::/1'],
  },
] as const satisfies AddressClass[];

export type ForbiddenClass = (typeof classes)[number]['name'] | 'not_an_address';

export type AddressVerdict = { allowed: true } | { allowed: false; because: ForbiddenClass };

/** IPv6 ranges that embed an IPv4 address, and the group at which it starts. */
const embeddings = [
  { name: 'mapped', prefix: '::ffff:0:0/96', at: 6 },
  { name: 'compatible', prefix: '::/96', at: 6 },
  { name: 'translated', prefix: '::ffff:0:0:0/96', at: 6 },
  { name: 'NAT64', prefix: '64:ff9b::/96', at: 6 },
  { name: '6to4', prefix: '2002::/16', at: 1 },
];

type Family = 'ipv4' | 'ipv6';

/**
 * One family per list: a BlockList also matches an IPv4 address against its IPv6-mapped form, and
 * vice versa.
 */
function listOf(family: Family, subnets: readonly string[]): BlockList {
  const list = new BlockList();
  for (const subnet of subnets) {
    const [net = '', prefix] = subnet.split('/');
    list.addSubnet(net, Number(prefix), family);
  }
  return list;
}

const judges = classes.map(({ name, passes, ipv4, ipv6 }) => ({
  name,
  passes,
  ipv4: listOf('ipv4', ipv4),
  ipv6: listOf('ipv6', ipv6),
}));
const embedded = embeddings.map(({ prefix, at }) => ({ list: listOf('ipv6', [prefix]), at }));
/**
 * `::` and `::1` are no embedded IPv4 addresses, although they lie in the IPv4-compatible range.
 */
const onlyIpv6 = listOf('ipv6', ['::/128', '::1/128']);

/** Returns the eight groups of an IPv6 address. The URL parser brings it to canonical form. */
function groupsOf(ip: string): number[] {
  const [head = '', tail] = new URL(`http://[${ip}]/`).hostname.slice(1, -1).split('::');
  const numbers = (part: string) => (part === '' ? [] : part.split(':').map((group) => Number.parseInt(group, 16)));
  if (tail === undefined) return numbers(head);
  const [before, after] = [numbers(head), numbers(tail)];
  return [...before, ...Array<number>(8 - before.length - after.length).fill(0), ...after];
}

function ipv4Inside(ip: string): string | undefined {
  if (onlyIpv6.check(ip, 'ipv6')) return undefined;
  const embedding = embedded.find(({ list }) => list.check(ip, 'ipv6'));
  if (!embedding) return undefined;
  return groupsOf(ip)
    .slice(embedding.at, embedding.at + 2)
    .flatMap((group) => [group >> 8, group & 0xff])
    .join('.');
}

/** `ip` as a resolver returns it, or as it stands in a URL, without brackets. */
export function judgeAddress(ip: string, { allow_private }: { allow_private: boolean }): AddressVerdict {
  // A zone id only names the interface; it does not change the address.
  const bare = ip.split('%', 1)[0] ?? '';
  const version = isIP(bare);
  if (version === 0) return { allowed: false, because: 'not_an_address' };
  const inside = version === 6 ? ipv4Inside(bare) : undefined;
  const [address, family]: [string, Family] = inside ? [inside, 'ipv4'] : [bare, version === 4 ? 'ipv4' : 'ipv6'];
  const found = judges.find((each) => each[family].check(address, family));
  if (!found || (allow_private && found.passes === 'if_private_allowed')) return { allowed: true };
  return { allowed: false, because: found.name };
}
