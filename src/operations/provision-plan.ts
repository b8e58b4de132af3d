/** What bringing a machine up consists of, as a person sees it. */
import type { PlanStep } from './stage.ts';

export const nodeProvisionKind = 'node-provision';

export const nodeProvisionPlan: PlanStep[] = [
  { name: 'assign', label: 'Finding a machine', usual_seconds: 0.5 },
  { name: 'launch', label: 'Launching', usual_seconds: 0.5 },
  { name: 'register', label: 'Waiting for it to register', usual_seconds: 2 },
  { name: 'start', label: 'Starting up', usual_seconds: 1 },
];
