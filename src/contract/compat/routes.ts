/** Every call of the compatibility protocols, by operation id. */
import { agentfieldRoutes } from './agentfield.ts';
import type { DoorRoute } from './protocol.ts';
import { moleculeRoutes } from './molecule.ts';

export const doorRoutes = { ...agentfieldRoutes, ...moleculeRoutes } as const;
export type DoorOperation = keyof typeof doorRoutes;

/** The path without a token. */
export const doorPath = ({ door, path }: DoorRoute): string => `/compat/${door}${path}`;
