import fc from 'fast-check';
import { expect, test } from 'vitest';
import { hostOf, probeUrl } from './probe-url.ts';

const joined = (base_url: string, path: string): string => {
  const made = probeUrl(base_url, path);
  return 'url' in made ? made.url.href : made.wrong;
};

test.for([
  ['http://node', '/health', 'http://node/health'],
  ['http://node/', 'health', 'http://node/health'],
  ['http://node/agent', '/health', 'http://node/agent/health'],
  ['http://node/agent//', '//health', 'http://node/agent/health'],
  ['http://node/agent', '/', 'http://node/agent/'],
  ['http://node/agent', '', 'http://node/agent'],
  ['http://node/agent?old=1#part', '/health', 'http://node/agent/health'],
  ['https://node:8443/a', '/health?deep=1?2#part', 'https://node:8443/a/health?deep=1?2'],
  ['http://node', '/a%20b c', 'http://node/a%20b%20c'],
  ['http://node/a', '/b/../c', 'http://node/a/c'],
] as const)('%s and %s', ([base_url, path, url]) => {
  expect(joined(base_url, path)).toBe(url);
});

test.for(['/../secret', '/..', '/%2e%2e/secret', '/.%2E/secret', '\\..\\secret', '/x/../../agent2'])(
  'the path %s cannot climb above the base',
  (path) => {
    expect(joined('http://node/agent', path)).toContain('leaves the base URL');
  },
);

test.for(['', 'node', 'http://', 'http:// node', 'http://[::1', 'http://node:99999'])(
  '"%s" is not a URL',
  (base_url) => {
    expect(joined(base_url, '/health')).toContain('is not a URL');
  },
);

test.for(['ftp://node', 'file:///etc/passwd', 'ws://node', 'gopher://node', 'data:text/plain,hi', 'unix:/run/a.sock'])(
  '%s is neither http nor https',
  (base_url) => {
    expect(joined(base_url, '/health')).toContain('must be http or https');
  },
);

test.for(['http://user:secret@node', 'http://user@node', 'http://:secret@node'])(
  'refuses credentials in the URL without repeating them',
  (base_url) => {
    expect(joined(base_url, '/health')).toContain('user name or a password');
    expect(joined(base_url, '/health')).not.toContain('secret');
  },
);

test('no path changes host, port or scheme, and none climbs above the base', () => {
  const odd = fc.constantFrom('/', '\\', '//', '@', ':', '..', '%2e', '?', '#', 'http://evil', '\t', '\n', '\0', 'é');
  const path = fc.array(fc.oneof(odd, fc.string()), { maxLength: 8 }).map((parts) => parts.join(''));
  fc.assert(
    fc.property(path, (text) => {
      const made = probeUrl('http://node:81/agent', text);
      if ('wrong' in made) return;
      expect(made.url.origin).toBe('http://node:81');
      expect(made.url.pathname).toMatch(/^\/agent(\/|$)/);
      expect(made.url.username + made.url.password + made.url.hash).toBe('');
      expect(made.url.href).toMatch(/^[!-~]+$/);
    }),
    { numRuns: 5_000 },
  );
});

test.for([
  ['http://node', 'node'],
  ['http://[::1]:80', '::1'],
  ['http://[::FFFF:127.0.0.1]', '::ffff:7f00:1'],
  ['http://2130706433', '127.0.0.1'],
  ['http://0x7f.1', '127.0.0.1'],
  ['http://0177.0.0.1', '127.0.0.1'],
  ['http://１２７.0.0.1.', '127.0.0.1'],
] as const)('the host of %s is %s', ([url, host]) => {
  expect(hostOf(new URL(url))).toBe(host);
});
