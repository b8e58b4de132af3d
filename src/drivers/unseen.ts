/** The observation of a machine that cannot be seen now: says nothing about whether it exists. */
import type { Observation } from './driver.ts';

export const unseen = (detail: string): Observation => ({
  ...{ state: 'unknown', present: true, ready: false },
  detail,
  unseen: true,
});
