/** A proof that is asked for once, within a bound: whatever is no proof is an answer too. */
import { expect, test } from 'vitest';
import { tryingDriver } from '../../test/scenarios/support/trying-driver.ts';
import { virtualClock } from '../base/virtual-clock.ts';
import type { Driver, DriverTarget } from '../drivers/driver.ts';
import { StoreUnavailable } from '../store/database.ts';
import { lookForProof } from './proof.ts';

const target = { node_instance_id: 'inst_1' } as DriverTarget;
const asked = (prove: Driver['prove'], clock = virtualClock()) =>
  lookForProof(clock, { driver: tryingDriver({ prove }), target });

test('is what the driver states for the nonce it was given', async () => {
  const looked = await asked(async (_, { kind, nonce }) => ({ outcome: 'done', proof: { kind, nonce, checked: [] } }));
  expect(looked.proof).toMatchObject({ kind: 'absent' });
});

test('a driver that never answers does not keep anybody waiting', async () => {
  const clock = virtualClock();
  const looking = asked(() => new Promise(() => {}), clock);
  await clock.advance(60_000);
  expect(await looking).toEqual({ proof: null, why_not: 'the driver trying did not answer within 30 s' });
});

test.for<[string, Driver['prove'], string]>([
  [
    'a refusal',
    async () => ({
      outcome: 'failed',
      owner_layer: 'provider',
      code: 'there',
      message: 'still there',
      retryable: true,
    }),
    'still there',
  ],
  ['a wait', async () => ({ outcome: 'wait', retry_seconds: 1, message: 'ask later' }), 'ask later'],
  [
    'an old proof',
    async (_, { kind }) => ({ outcome: 'done', proof: { kind, nonce: 'of yesterday', checked: [] } }),
    'the proof does not answer what was asked',
  ],
  [
    'an error',
    async () => {
      throw new Error('the provider is away');
    },
    'the driver trying failed: the provider is away',
  ],
])('%s is no proof, and says why', async ([, prove, why_not]) => {
  expect(await asked(prove)).toEqual({ proof: null, why_not });
});

test('a store that is away says nothing about the machine', async () => {
  const away = async () => {
    throw new StoreUnavailable('away');
  };
  await expect(asked(away)).rejects.toThrow(StoreUnavailable);
});
