import { expect, test } from 'vitest';
import { DatabaseUrlError, parseDatabaseUrl, withoutPassword } from './database-url.ts';

const parsed: [name: string, url: string, urls: string[], target: string][] = [
  ['one server', 'postgres://me:pw@a:1/db', ['postgres://me:pw@a:1/db'], 'any'],
  ['a socket', 'postgres://me@a/db?host=%2Frun%2Fpg', ['postgres://me@a/db?host=%2Frun%2Fpg'], 'any'],
  [
    'one server and a target',
    'postgresql://me:p%40w@a/db?target_session_attrs=primary&sslmode=require',
    ['postgresql://me:p%40w@a/db?sslmode=require'],
    'primary',
  ],
  [
    'several servers, of which one must accept writes by default',
    'postgres://me:pw@a:1,b:2/db?sslmode=require',
    ['postgres://me:pw@a:1/db?sslmode=require', 'postgres://me:pw@b:2/db?sslmode=require'],
    'read-write',
  ],
  [
    'IPv6 and a default port',
    'postgres://[::1]:1,b/db?target_session_attrs=any',
    ['postgres://[::1]:1/db', 'postgres://b/db'],
    'any',
  ],
  [
    'hosts and ports as parameters',
    'postgres://me@/db?host=a,b&port=1,2',
    ['postgres://me@/db?host=a&port=1', 'postgres://me@/db?host=b&port=2'],
    'read-write',
  ],
  [
    'one port for all hosts',
    'postgres://me@/db?host=a,b&port=6',
    ['postgres://me@/db?host=a&port=6', 'postgres://me@/db?host=b&port=6'],
    'read-write',
  ],
  [
    'an account that contains an @',
    'postgres://me:p@w@a,b/db',
    ['postgres://me:p@w@a/db', 'postgres://me:p@w@b/db'],
    'read-write',
  ],
];
test.each(parsed)('reads %s', (_, url, urls, target) => {
  expect(parseDatabaseUrl(url)).toEqual({ urls, target });
});

test.each([
  ['another scheme', 'mysql://me:hidden-word@a/db'],
  ['no URL', 'hidden-word'],
  ['a password with a slash', 'postgres://me:hidden-/word@a/db'],
  ['an empty host', 'postgres://me:hidden-word@a,,b/db'],
  ['a target that cannot write', 'postgres://me:hidden-word@a,b/db?target_session_attrs=prefer-standby'],
  ['too few ports', 'postgres://me:hidden-word@/db?host=a,b,c&port=1,2'],
])('refuses %s without showing the password', (_, url) => {
  expect(() => parseDatabaseUrl(url)).toThrow(DatabaseUrlError);
  expect(() => parseDatabaseUrl(url)).not.toThrow(/hidden/);
});

test.each([
  ['postgres://me:hidden@a:1,b/db?password=hidden', 'postgres://me@a:1,b/db'],
  ['postgres://a/db', 'postgres://a/db'],
])('shows %s without its password', (url, shown) => {
  expect(withoutPassword(url)).toBe(shown);
});
