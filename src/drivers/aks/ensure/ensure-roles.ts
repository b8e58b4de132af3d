/**
 * Creates and finds the role assignments of a cluster. Their names are derived, so each assignment
 * is created once and can be found again.
 */
import type { DriverFailure, DriverTarget, DriverWait } from '../../driver.ts';
import { codeOf } from '../../upstream-error.ts';
import type { AzurePlace } from '../aks-host.ts';
import type { Assignment } from '../azure/azure-roles.ts';
import { clusterId, type Place } from '../place.ts';
import { type Grant, isSameGrant, roleAssignmentId } from '../role-id.ts';
import { type AksRole, type AksSpec, isAksSpec } from '../spec.ts';
import { type EnsureContext, phases } from './plan.ts';

/** The default scope is the cluster. */
export const grantOf = (place: Place, role: AksRole): Grant => ({
  scope: role.scope ?? clusterId(place),
  role_definition_id: role.role_definition_id.includes('/')
    ? role.role_definition_id
    : `/subscriptions/${place.subscription_id}/providers/Microsoft.Authorization/roleDefinitions/${role.role_definition_id}`,
  principal_id: role.principal_id,
});

export const grantsOf = (place: Place, { roles = [] }: AksSpec) =>
  roles.map((role) => ({ ...grantOf(place, role), principal_type: role.principal_type }));

/**
 * Returns null if all role assignments exist. They are created one after the other, so the first
 * refusal is the one that is reported.
 */
export async function ensureRoles(context: EnsureContext): Promise<DriverWait | DriverFailure | null> {
  const { azure, target, spec, place } = context;
  const description = `slipway: node ${target.node_id}, instance ${target.node_instance_id}`;
  for (const grant of grantsOf(place, spec)) {
    const name = roleAssignmentId(grant, target.node_instance_id);
    try {
      await azure.roles.create(name, { ...grant, description });
    } catch (error) {
      if (!/^RoleAssignment(Exists|UpdateNotPermitted)$/.test(codeOf(error) ?? '')) throw error;
      if (!(await isAlreadyGranted(context, grant, name))) return differentGrantFailure(grant, name);
    }
  }
  return null;
}

/** Whether the existing assignment gives the same role to the same principal. */
async function isAlreadyGranted({ azure }: EnsureContext, grant: Grant, name: string): Promise<boolean> {
  const assignment = await azure.roles.get(grant.scope, name);
  if (assignment) return isSameGrant(assignment, grant);
  return (await azure.roles.listAt(grant.scope)).some((other) => isSameGrant(other, grant));
}

const differentGrantFailure = ({ scope, role_definition_id }: Grant, name: string): DriverFailure => ({
  outcome: 'failed',
  owner_layer: 'provider',
  code: 'RoleAssignmentExists',
  message: `Azure reports that role assignment ${name} on ${scope} exists, but it does not give ${role_definition_id} to the principal of the pool`,
  retryable: false,
  phase: phases.roles,
});

/**
 * Finds the existing role assignments of an instance by their derived names. It searches the
 * cluster and the scopes in the pool's spec.
 */
export async function findInstanceRoles({ azure, place }: AzurePlace, target: DriverTarget): Promise<Assignment[]> {
  const scopes = [
    clusterId(place),
    ...(isAksSpec(target.spec) ? grantsOf(place, target.spec) : []).map(({ scope }) => scope),
  ];
  const distinct = new Map(scopes.map((scope) => [scope.toLowerCase(), scope]));
  const assignments = await Promise.all([...distinct.values()].map((scope) => azure.roles.listAt(scope)));
  return assignments
    .flat()
    .filter((assignment) => roleAssignmentId(assignment, target.node_instance_id) === assignment.name.toLowerCase());
}
