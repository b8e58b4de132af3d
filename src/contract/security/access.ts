/**
 * Common access levels of routes, by name. `tenants: 'own'` admits the token of a tenant for the
 * tenant's own rows; 'none' refuses it.
 */
import type { Access } from '../route.ts';

export const publicAccess: Access = { kind: 'public' };
export const viewer: Access = { kind: 'person', role: 'viewer', tenants: 'own' };
export const operator: Access = { kind: 'person', role: 'operator', tenants: 'own' };
export const fleetViewer: Access = { kind: 'person', role: 'viewer', tenants: 'none' };
export const fleetOperator: Access = { kind: 'person', role: 'operator', tenants: 'none' };
export const admin: Access = { kind: 'person', role: 'admin', tenants: 'none' };
export const instance: Access = { kind: 'agent' };
export const instanceOrRelay: Access = { kind: 'agent', relays: true };
export const instanceOrFormer: Access = { kind: 'agent', fenced: 'heard' };
export const instanceOrExpired: Access = { kind: 'agent', expired: 'within_grace' };
