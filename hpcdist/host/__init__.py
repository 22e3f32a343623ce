"""The edge to the machine that hpcdist runs on: processes, files, locks, shipped data.

command shell    a command and what came of it; the one module that starts processes
untrusted ownership locks    files that others may have made, folders in which others may write, one at a time
xdg resources    the user's folders; templates and site files that are shipped
"""
