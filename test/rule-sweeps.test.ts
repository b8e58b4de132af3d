/** Every rule of the lifecycle model has a sweep, unless a transition applies the rule. */
import { expect, it } from 'vitest';
import { causes } from '../src/lifecycle/model/transitions.ts';
import { defaultEnvironment } from '../src/store/transitions/transition-rules.ts';
import { sweepRegistry } from '../src/sweeps/registry.ts';

const appliedByTransitions = ['node-ready', 'node-failed', 'node-lost', 'rescue', 'degraded', 'prerequisite-missing'];

it('has a sweep for every rule of the model that no transition applies', () => {
  const rules = Object.entries(causes).flatMap(([name, { trigger }]) => (trigger === 'rule' ? [name] : []));
  const sweeps = sweepRegistry({ environment: defaultEnvironment } as never).map((sweep) => sweep.name);
  const rulesWithSweep = rules.filter((rule) => sweeps.includes(rule));
  expect([...rulesWithSweep, ...appliedByTransitions].sort()).toEqual(rules.sort());
});
