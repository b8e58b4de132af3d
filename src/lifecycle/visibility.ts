/**
 * Tenant isolation: which part of the fleet a caller may see and change. Every read for a caller
 * requires a `Visibility`; there is no default.
 *
 * - Reads: `store/visibility.ts` turns a `Visibility` into SQL predicates.
 * - Routes: `authorize` in api/http/auth.ts asks `mayCall` before the handler runs.
 * - Allocations and operations: operations/runtime/caller.ts asks `canSee` before any change.
 */
export type Visibility = { kind: 'fleet' } | { kind: 'tenant'; tenant: string };

/** For tokens without a tenant, and for the server's own work. */
export const wholeFleet: Visibility = { kind: 'fleet' };

export const tenantOnly = (tenant: string): Visibility => ({ kind: 'tenant', tenant });

/** `rowTenant` is the tenant of the row to see. Only `fleet` sees rows without a tenant. */
export const canSee = (visibility: Visibility, rowTenant: string | null): boolean =>
  visibility.kind === 'fleet' || visibility.tenant === rowTenant;

/**
 * Which tenants a route admits: with `own` they see and change only their own rows, with `none`
 * the route is refused. Every action on a node has `none`.
 */
export type RouteTenants = 'own' | 'none';

export const mayCall = (visibility: Visibility, tenants: RouteTenants): boolean =>
  visibility.kind === 'fleet' || tenants === 'own';
