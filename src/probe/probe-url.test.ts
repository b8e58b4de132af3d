import fc from 'fast-check';
import { expect, test } from 'vitest';
import { hostOf, probeUrl } from './probe-url.ts';

const joinUrl = (base_url: string, path: string): string => {
  const result = probeUrl(base_url, path);
  return 'url' in result ? result.url.href : result.problem;
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
] as const)('joins %s and %s to %s', ([base_url, path, url]) => {
  expect(joinUrl(base_url, path)).toBe(url);
});

test.for(['/../secret', '/..', '/%2e%2e/secret', '/.%2E/secret', '\\..\\secret', '/x/../../agent2'])(
  'refuses the path %s, which leaves the base URL',
  (path) => {
    expect(joinUrl('http://node/agent', path)).toContain('leaves the base URL');
  },
);

test.for(['', 'node', 'http://', 'http:// node', 'http://[::1', 'http://node:99999'])(
  'refuses "%s", which is not a URL',
  (base_url) => {
    expect(joinUrl(base_url, '/health')).toContain('is not a URL');
  },
);

test.for(['ftp://node', 'file:///etc/passwd', 'ws://node', 'gopher://node', 'data:text/plain,hi', 'unix:/run/a.sock'])(
  'refuses %s, which is neither http nor https',
  (base_url) => {
    expect(joinUrl(base_url, '/health')).toContain('must be http or https');
  },
);

test.for(['http://user:secret@node', 'http://user@node', 'http://:secret@node'])(
  'refuses credentials in the URL without repeating them',
  (base_url) => {
    expect(joinUrl(base_url, '/health')).toContain('user name or a password');
    expect(joinUrl(base_url, '/health')).not.toContain('secret');
  },
);

test('keeps host, port, scheme and base for any path', () => {
  const odd = fc.constantFrom('/', '\\', '//', '@', ':', '..', '%2e', '?', '#', 'http://evil', '\t', '\n', '\0', 'é');
  const path = fc.array(fc.oneof(odd, fc.string()), { maxLength: 8 }).map((parts) => parts.join(''));
  fc.assert(
    fc.property(path, (text) => {
      const result = probeUrl('http://node:81/agent', text);
      if ('problem' in result) return;
      expect(result.url.origin).toBe('http://node:81');
      expect(result.url.pathname).toMatch(/^\/agent(\/|$)/);
      expect(result.url.username + result.url.password + result.url.hash).toBe('');
      expect(result.url.href).toMatch(/^[!-~]+$/);
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
] as const)('reads from %s the host %s', ([url, host]) => {
  expect(hostOf(new URL(url))).toBe(host);
});
