/**
 * A driver for stories about providers that no machine here can play: it queues, shows states and lines as the story says.
 * Simulated: nothing is launched. The rules, the operation, the store and the API around it are the product's own.
 */
import { Type } from 'typebox';
import type { Driver } from '../../../src/drivers/driver.ts';

const done = async () => ({ outcome: 'done' as const, message: 'simulated' });

export const simulatedDriver = (story: Partial<Driver>): Driver => ({
  name: 'simulated',
  supervision: 'agent',
  launches: true,
  host_bound: false,
  final_proof: 'absent',
  spec_schema: Type.Object({}, { additionalProperties: false }),
  plan: () => [],
  ensure: done,
  observe: async () => ({ state: 'running', present: true, ready: false, detail: null }),
  stop: done,
  clean: done,
  destroy: done,
  prove: async (_, { kind, nonce }) => ({
    outcome: 'done',
    proof: { kind, nonce, checked: [{ what: 'a simulated machine', seen: 'nothing' }] },
  }),
  diagnose: async () => ({ summary: 'a simulated machine', certain: false, attachments: [] }),
  list_owned: async () => [],
  abort: done,
  ...story,
});
