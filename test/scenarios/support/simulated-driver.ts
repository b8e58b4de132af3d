/**
 * A simulated driver for providers that this host cannot run. The test sets its answers and states,
 * and it launches nothing. The rules, operations, store and API around it are real.
 */
import { Type } from 'typebox';
import type { Driver } from '../../../src/drivers/driver.ts';

const done = async () => ({ outcome: 'done' as const, message: 'simulated' });

export const simulatedDriver = (overrides: Partial<Driver>): Driver => ({
  name: 'simulated',
  supervision: 'agent',
  launches: true,
  host_bound: false,
  final_proof: 'absent',
  spec_schema: Type.Object({}, { additionalProperties: false }),
  plan: () => [],
  ensure: done,
  inspect: async () => ({ state: 'running', present: true, ready: false, detail: null }),
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
  ...overrides,
});
