/** What is said of a machine that cannot be looked at now: nothing about whether it exists. */
import type { Observation } from './driver.ts';

export const unseen = (detail: string): Observation => ({
  ...{ state: 'unknown', present: true, ready: false },
  detail,
  unseen: true,
});
