/** Finds the browser for the browser tests, or installs Debian's if permitted. */
import { install, isProgram, mayInstall as mayInstallAny, onPath } from './debian.mjs';

const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

/** Returns the path of the browser, or undefined. `CHROMIUM_PATH` takes precedence. */
export function findChromium() {
  const configuredPath = process.env.CHROMIUM_PATH;
  if (configuredPath) return isProgram(configuredPath) ? configuredPath : undefined;
  return names.map(onPath).find((path) => path !== undefined);
}

const mayInstall = () => mayInstallAny() && !process.env.CHROMIUM_PATH;

export const chromiumStep = {
  doing: "installing Debian's chromium for the browser tests",
  done: 'chromium installed',
  needed() {
    if (findChromium()) return false;
    if (mayInstall()) return true;
    if (process.env.CHROMIUM_PATH) {
      return `the browser tests will fail: CHROMIUM_PATH is ${process.env.CHROMIUM_PATH}, which is not a program.`;
    }
    return 'the browser tests will fail: install Chromium (Debian: apt-get install chromium) or set CHROMIUM_PATH.';
  },
  run: () => install('chromium'),
};
