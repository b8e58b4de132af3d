/** A server that forgets, again and again, which machines served somebody and were never proven since. */
import type { Composition } from '../../../src/main.ts';

export const forgetful: Required<Pick<Composition, 'sweeps'>> = {
  sweeps: (registry, services) => [
    {
      name: 'forgetful',
      every_seconds: 0.05,
      run: async () => {
        await services.db.query('update instances set unproven_since = null');
        return { decided: 0 };
      },
    },
    ...registry,
  ],
};
