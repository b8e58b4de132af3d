/** The phases in which a cluster comes up, as people see them. */
import type { PlannedStep } from '../../driver.ts';

export const phases = {
  begin: 'creating_cluster',
  group: 'ensuring_resource_group',
  create: 'arm_create_or_update',
  roles: 'ensuring_rbac',
  done: 'completed',
} as const;

export const plannedPhases = (): PlannedStep[] => [
  { phase: phases.begin, label: 'Preparing the cluster', usual_seconds: 2, owner_layer: 'provider' },
  { phase: phases.group, label: 'Ensuring the resource group', usual_seconds: 5, owner_layer: 'provider' },
  {
    phase: phases.create,
    label: 'Creating AKS cluster',
    usual_seconds: 300,
    owner_layer: 'provider',
    slow_seconds: 600,
  },
  { phase: phases.roles, label: 'Ensuring role assignments', usual_seconds: 10, owner_layer: 'provider' },
  { phase: phases.done, label: 'Waiting for it to be ready', usual_seconds: null, owner_layer: 'provider' },
];
