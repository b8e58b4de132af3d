/** The model checker counts on rules. Each one runs as a sweep, or is the door's own. */
import { expect, it } from 'vitest';
import { causes } from '../src/lifecycle/model/transitions.ts';
import { defaultEnvironment } from '../src/store/transitions/transition-rules.ts';
import { sweepRegistry } from '../src/sweeps/registry.ts';

const byTransition = ['node-ready', 'node-failed', 'node-lost', 'rescue', 'degraded', 'prerequisite-missing'];

it('has a sweep for every rule that the tables count on', () => {
  const rules = Object.entries(causes).flatMap(([name, { trigger }]) => (trigger === 'rule' ? [name] : []));
  const sweeps = sweepRegistry({ environment: defaultEnvironment } as never).map((sweep) => sweep.name);
  const atWork = rules.filter((rule) => sweeps.includes(rule));
  expect([...atWork, ...byTransition].sort()).toEqual(rules.sort());
});
