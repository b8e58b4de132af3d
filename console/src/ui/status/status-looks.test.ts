import { describe, expect, it } from 'vitest';
import { allocationLooks, findingLooks, nodeLooks, operationLooks, residueLooks, stepLooks } from './status-looks.ts';

describe.each(Object.entries({ nodeLooks, allocationLooks, operationLooks, stepLooks, findingLooks, residueLooks }))(
  '%s',
  (_, looks) => {
    it('statuses of one tone differ in icon or word, and every letter is unique', () => {
      const all = Object.values(looks);
      expect(new Set(all.map(({ letter }) => letter)).size).toBe(all.length);
      const signs = all.map(({ tone, icon, loud }) => [tone, icon.displayName, loud].join());
      expect(new Set(signs).size).toBe(all.length);
    });
  },
);
