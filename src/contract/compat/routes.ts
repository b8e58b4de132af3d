/** Every call that the front doors answer, by its operation id, as `routes` has those of our own protocol. */
import { agentfieldRoutes } from './agentfield.ts';
import type { DoorRoute } from './door.ts';
import { moleculeRoutes } from './molecule.ts';

export const doorRoutes = { ...agentfieldRoutes, ...moleculeRoutes } as const;
export type DoorOperation = keyof typeof doorRoutes;

/** The address without a token in it. */
export const doorPath = ({ door, path }: DoorRoute): string => `/compat/${door}${path}`;
