/**
 * Tenant isolation: which part of the fleet a caller may see. Every read for a caller requires a
 * `Visibility`; there is no default. `store/visibility.ts` turns it into SQL.
 *
 * Writes and actions are guarded elsewhere: `authorize` in api/http/auth.ts refuses tenants on
 * routes of the whole fleet, which include every action on a node, and operations/runtime/caller.ts
 * refuses them the allocations and operations of other tenants.
 */
export type Visibility = { kind: 'fleet' } | { kind: 'tenant'; tenant: string };

/** For tokens without a tenant, and for the server's own work. */
export const wholeFleet: Visibility = { kind: 'fleet' };

export const tenantOnly = (tenant: string): Visibility => ({ kind: 'tenant', tenant });

/** `rowTenant` is the tenant of the row to see. Only `fleet` sees rows without a tenant. */
export const canSee = (visibility: Visibility, rowTenant: string | null): boolean =>
  visibility.kind === 'fleet' || visibility.tenant === rowTenant;
