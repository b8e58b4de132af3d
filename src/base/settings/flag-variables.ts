/**
 * Environment variables for the flags of the agent and the relay. A flag overrides its variable.
 */

interface Flag {
  type: 'string' | 'boolean';
  /** May be repeated; a variable holds all values, separated by commas. */
  multiple?: boolean;
}

const yes = ['1', 'true', 'yes', 'on'];

export const flagVariable = (program: string, flag: string): string =>
  `SLIPWAY_${program}_${flag}`.replaceAll('-', '_').toUpperCase();

const read = ({ type, multiple }: Flag, text: string): string | string[] | boolean => {
  if (type === 'boolean') return yes.includes(text.toLowerCase());
  return multiple ? text.split(',').map((each) => each.trim()) : text;
};

/** `named` maps flags to variables with special names. An empty variable counts as unset. */
export function withVariables<Values extends object>(
  given: Values,
  flags: Record<string, Flag>,
  env: Record<string, string | undefined>,
  { program, named = {} }: { program: string; named?: Record<string, string> },
): Values {
  const found = Object.entries(flags).flatMap(([name, flag]) => {
    const text = env[named[name] ?? flagVariable(program, name)];
    return name === 'help' || name in given || !text ? [] : [[name, read(flag, text)] as const];
  });
  return { ...given, ...Object.fromEntries(found) };
}
