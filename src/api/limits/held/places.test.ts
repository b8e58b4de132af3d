import { EventEmitter } from 'node:events';
import type { FastifyReply } from 'fastify';
import { expect, it } from 'vitest';
import { ApiProblem } from '../../../contract/errors/errors.ts';
import { tenantOnly, wholeFleet } from '../../../lifecycle/visibility.ts';
import type { Person } from '../../http/callers.ts';
import { createPlaces, type Shares } from './places.ts';

const testShares = {
  ...{ total: 10, all_tenants: 6, one_tenant: 4, one_token: 3 },
  ...{ reserved: 0, few: 1, retry_after_seconds: 15 },
};

function openTestPlaces(shares: Shares = testShares) {
  const places = createPlaces('event streams', shares);
  const open: EventEmitter[] = [];
  /** Takes places until one is refused; returns the number of places taken. */
  const fill = (token_id: string, tenant: string | null): number => {
    const visibility = tenant === null ? wholeFleet : tenantOnly(tenant);
    for (let count = 0; ; count++) {
      const raw = new EventEmitter();
      try {
        places.hold({ token_id, name: token_id, visibility } as Person, { raw } as unknown as FastifyReply);
        open.push(raw);
      } catch (error) {
        expect(error).toBeInstanceOf(ApiProblem);
        expect(error).toMatchObject({ code: 'rate_limited', extras: { retry_after_seconds: 15 } });
        return count;
      }
    }
  };
  return { places, fill, open };
}

it('limits tokens, tenants and all tenants together, and leaves places for fleet tokens', () => {
  const { fill } = openTestPlaces();
  expect(fill('a1', 'acme'), 'one token').toBe(3);
  expect(fill('a2', 'acme'), 'one tenant').toBe(1);
  expect(fill('g1', 'globex'), 'all tenants').toBe(2);
  expect(fill('f1', null), 'one fleet token').toBe(3);
  expect(fill('f2', null), 'all places are taken').toBe(1);
});

it('reserves places for tenants that hold few', () => {
  const { fill } = openTestPlaces({ ...testShares, reserved: 3, few: 2 });
  expect(fill('a1', 'acme')).toBe(3);
  expect(fill('a2', 'acme'), 'the reserved places are not for this tenant').toBe(0);
  expect(fill('g1', 'globex'), 'another tenant gets a few of them').toBe(2);
  expect(fill('i1', 'initech'), 'a third tenant gets the last one').toBe(1);
});

it('frees a place only once if it is released twice', () => {
  const { places } = openTestPlaces();
  const release = places.take({ token_id: 'a', name: 'a', visibility: tenantOnly('acme') });
  places.take({ token_id: 'a', name: 'a', visibility: tenantOnly('acme') });
  release();
  release();
  expect(places.held()).toBe(1);
});

it('frees a place when its response closes', () => {
  const { fill, open, places } = openTestPlaces();
  fill('a1', 'acme');
  open.pop()?.emit('close');
  expect(places.held()).toBe(2);
  expect(fill('a1', 'acme')).toBe(1);
  for (const each of open) each.emit('close');
  expect(places.held()).toBe(0);
});

it('holds no place for a caller that has disconnected', () => {
  const { places } = openTestPlaces();
  const raw = Object.assign(new EventEmitter(), { closed: true });
  places.hold(
    { token_id: 'a', name: 'a', visibility: tenantOnly('acme') } as Person,
    { raw } as unknown as FastifyReply,
  );
  expect(places.held()).toBe(0);
});
