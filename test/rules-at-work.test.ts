/** The model checker counts on rules. Each one runs as a sweep, is the door's own, or is on the list of what is still to come. */
import { expect, it } from 'vitest';
import { causes } from '../src/lifecycle/transitions.ts';
import { defaultEnvironment } from '../src/store/door-rules.ts';
import { sweepRegistry } from '../src/sweeps/registry.ts';

const byTheDoor = ['node-ready', 'node-failed', 'node-lost', 'rescue', 'degraded', 'prerequisite-missing'];
const toCome = ['drift'];

it('has a sweep for every rule that the tables count on', () => {
  const rules = Object.entries(causes).flatMap(([name, { trigger }]) => (trigger === 'rule' ? [name] : []));
  const sweeps = sweepRegistry({ environment: defaultEnvironment } as never).map((sweep) => sweep.name);
  const atWork = rules.filter((rule) => sweeps.includes(rule));
  expect([...atWork, ...byTheDoor, ...toCome].sort()).toEqual(rules.sort());
});
