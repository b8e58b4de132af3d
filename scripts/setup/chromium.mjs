/** The browser of the browser tests: the machine's own, or Debian's if we may install it. */
import { install, isProgram, mayInstall as mayInstallAny, onPath } from './debian.mjs';

const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

/** The browser's path, or undefined; `CHROMIUM_PATH` takes precedence. */
export function findChromium() {
  const chosen = process.env.CHROMIUM_PATH;
  if (chosen) return isProgram(chosen) ? chosen : undefined;
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
