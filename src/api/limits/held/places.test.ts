import { EventEmitter } from 'node:events';
import type { FastifyReply } from 'fastify';
import { expect, it } from 'vitest';
import { ApiProblem } from '../../../contract/errors/errors.ts';
import { tenantOnly, wholeFleet } from '../../../lifecycle/visibility.ts';
import type { Person } from '../../http/callers.ts';
import { createPlaces, type Shares } from './places.ts';

const byShares = {
  ...{ total: 10, all_tenants: 6, one_tenant: 4, one_token: 3 },
  ...{ kept: 0, few: 1, retry_after_seconds: 15 },
};

function scene(shares: Shares = byShares) {
  const places = createPlaces('event streams', shares);
  const open: EventEmitter[] = [];
  /** Takes places until it is refused; returns how many it got. */
  const fill = (token_id: string, tenant: string | null): number => {
    const visibility = tenant === null ? wholeFleet : tenantOnly(tenant);
    for (let got = 0; ; got++) {
      const raw = new EventEmitter();
      try {
        places.hold({ token_id, name: token_id, visibility } as Person, { raw } as unknown as FastifyReply);
        open.push(raw);
      } catch (error) {
        expect(error).toBeInstanceOf(ApiProblem);
        expect(error).toMatchObject({ code: 'rate_limited', extras: { retry_after_seconds: 15 } });
        return got;
      }
    }
  };
  return { places, fill, open };
}

it('limits tokens, tenants and all tenants together, and keeps the rest for the fleet', () => {
  const { fill } = scene();
  expect(fill('a1', 'acme'), 'one token').toBe(3);
  expect(fill('a2', 'acme'), 'one tenant').toBe(1);
  expect(fill('g1', 'globex'), 'all tenants').toBe(2);
  expect(fill('f1', null), 'the fleet, by one token').toBe(3);
  expect(fill('f2', null), 'the fleet, by all there is').toBe(1);
});

it('keeps a part for tenants that hold few', () => {
  const { fill } = scene({ ...byShares, kept: 3, few: 2 });
  expect(fill('a1', 'acme')).toBe(3);
  expect(fill('a2', 'acme'), 'the kept part is not for it').toBe(0);
  expect(fill('g1', 'globex'), 'a newcomer gets a few').toBe(2);
  expect(fill('i1', 'initech'), 'until all is gone').toBe(1);
});

it('frees a place once, however often it is given back', () => {
  const { places } = scene();
  const giveBack = places.take({ token_id: 'a', name: 'a', visibility: tenantOnly('acme') });
  places.take({ token_id: 'a', name: 'a', visibility: tenantOnly('acme') });
  giveBack();
  giveBack();
  expect(places.held()).toBe(1);
});

it('frees a place when its response closes', () => {
  const { fill, open, places } = scene();
  fill('a1', 'acme');
  open.pop()?.emit('close');
  expect(places.held()).toBe(2);
  expect(fill('a1', 'acme')).toBe(1);
  for (const each of open) each.emit('close');
  expect(places.held()).toBe(0);
});

it('holds no place for a caller that has disconnected', () => {
  const { places } = scene();
  const raw = Object.assign(new EventEmitter(), { closed: true });
  places.hold(
    { token_id: 'a', name: 'a', visibility: tenantOnly('acme') } as Person,
    { raw } as unknown as FastifyReply,
  );
  expect(places.held()).toBe(0);
});
