/**
 * Role assignments of the cluster, under derived names, so that each is created once and can be
 * found.
 */
import type { DriverFailure, DriverTarget, DriverWait } from '../../driver.ts';
import { codeOf } from '../../upstream-error.ts';
import type { Placed } from '../aks-host.ts';
import type { Assignment } from '../azure/azure-roles.ts';
import { clusterId, type Place } from '../place.ts';
import { type Grant, isSameGrant, roleAssignmentId } from '../role-id.ts';
import { type AksRole, type AksSpec, isAksSpec } from '../spec.ts';
import { type Making, phases } from './plan.ts';

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
 * Returns null if all exist. One after the other, so that the first refusal is the one reported.
 */
export async function ensureRoles(making: Making): Promise<DriverWait | DriverFailure | null> {
  const { azure, target, spec, place } = making;
  const description = `slipway: node ${target.node_id}, instance ${target.node_instance_id}`;
  for (const grant of grantsOf(place, spec)) {
    const name = roleAssignmentId(grant, target.node_instance_id);
    try {
      await azure.roles.create(name, { ...grant, description });
    } catch (error) {
      if (!/^RoleAssignment(Exists|UpdateNotPermitted)$/.test(codeOf(error) ?? '')) throw error;
      if (!(await isGiven(making, grant, name))) return takenBySomethingElse(grant, name);
    }
  }
  return null;
}

/** "Exists" counts only if it is this very role for this very principal. */
async function isGiven({ azure }: Making, grant: Grant, name: string): Promise<boolean> {
  const own = await azure.roles.get(grant.scope, name);
  if (own) return isSameGrant(own, grant);
  return (await azure.roles.at(grant.scope)).some((each) => isSameGrant(each, grant));
}

const takenBySomethingElse = ({ scope, role_definition_id }: Grant, name: string): DriverFailure => ({
  outcome: 'failed',
  owner_layer: 'provider',
  code: 'RoleAssignmentExists',
  message: `Azure says that role assignment ${name} on ${scope} exists, and what is there does not give ${role_definition_id} to the principal of the pool`,
  retryable: false,
  phase: phases.roles,
});

/**
 * The existing role assignments of an instance: those in its pool's spec, and those on its cluster
 * with a name derived from it.
 */
export async function ownRoles({ azure, place }: Placed, target: DriverTarget): Promise<Assignment[]> {
  const scopes = [
    clusterId(place),
    ...(isAksSpec(target.spec) ? grantsOf(place, target.spec) : []).map(({ scope }) => scope),
  ];
  const distinct = new Map(scopes.map((scope) => [scope.toLowerCase(), scope]));
  const found = await Promise.all([...distinct.values()].map((scope) => azure.roles.at(scope)));
  return found.flat().filter((each) => roleAssignmentId(each, target.node_instance_id) === each.name.toLowerCase());
}
