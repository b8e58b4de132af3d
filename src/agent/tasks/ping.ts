/** Proves that claim and result work, and nothing more. */
import { now } from '../../base/clock.ts';
import { succeeded, type TaskType } from './task.ts';

export const ping: TaskType = async ({ machine }) => succeeded({ pong: true, at: now(machine.clock).toISOString() });
