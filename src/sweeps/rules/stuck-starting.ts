/**
 * `stuck-starting`: starting → ready. Heartbeats prove that the machine is alive, its age that
 * start-up is over.
 */
import type { SweepServices } from '../runner/services.ts';
import { defineDeadlineRule } from './define-deadline-rule.ts';

export const stuckStarting = (services: SweepServices) =>
  defineDeadlineRule(services, {
    name: 'stuck-starting',
    from: 'starting',
    to: 'ready',
    where: [['fresh', 'complete']],
    reason: (waited) => `it sends heartbeats and its start-up time is over, though it never reported ready (${waited})`,
  });
