import { describe, expect, it } from 'vitest';
import {
  allocationLooks,
  findingLooks,
  lookOf,
  nodeLooks,
  operationLooks,
  residueLooks,
  stepLooks,
} from './status-looks.ts';

describe.each(Object.entries({ nodeLooks, allocationLooks, operationLooks, stepLooks, findingLooks, residueLooks }))(
  '%s',
  (_, looks) => {
    it('every status has a unique combination of tone, icon and emphasis', () => {
      const all = Object.values(looks);
      const icons = [...new Set(all.map(({ icon }) => icon))];
      const signs = all.map(({ tone, icon, isSolid }) => [tone, icons.indexOf(icon), isSolid].join());
      expect(new Set(signs).size).toBe(all.length);
    });
  },
);

it('has a look for a status of a newer server', () => {
  expect(lookOf(stepLooks, 'running')).toBe(stepLooks.running);
  expect(lookOf(operationLooks, 'of a newer server' as 'running')).toMatchObject({ tone: 'idle' });
});
